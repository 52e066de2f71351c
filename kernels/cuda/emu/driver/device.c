// Devices: their number and properties.
#include "driver.h"

#include <stdio.h>
#include <string.h>

API CUresult cuInit(u32 flags) {
	CUresult r = enter(ALWAYS);
	if (r)
		return r;
	if (flags)
		return leave(INVALID_VALUE);
	if (!initialized)
		read_settings();
	initialized = settings.devices > 0;
	return leave(initialized ? SUCCESS : NO_DEVICE);
}

API CUresult cuDriverGetVersion(int *v) {
	CUresult r = enter(ALWAYS);
	if (r)
		return r;
	if (!initialized)
		read_settings();
	if (v)
		*v = settings.driver;
	return leave(v ? SUCCESS : INVALID_VALUE);
}

// A program that holds nothing sees the devices that its environment asks for now.
API CUresult cuDeviceGetCount(int *n) {
	CUresult r = enter(INITIALIZED);
	if (r)
		return r;
	if (!in_use())
		read_settings();
	if (n)
		*n = settings.devices;
	return leave(n ? SUCCESS : INVALID_VALUE);
}

static CUresult enter_device(CUdevice d, const void *result) {
	CUresult r = enter(INITIALIZED);
	if (r)
		return r;
	return !result ? leave(INVALID_VALUE) : d < 0 || d >= settings.devices ? leave(INVALID_DEVICE) : SUCCESS;
}

API CUresult cuDeviceGet(CUdevice *d, int n) {
	CUresult r = enter_device(n, d);
	if (r)
		return r;
	*d = n;
	return leave(SUCCESS);
}

API CUresult cuDeviceGetName(char *s, int n, CUdevice d) {
	CUresult r = enter_device(d, s);
	if (r)
		return r;
	if (n > 0)
		snprintf(s, (size_t)n, "%s", settings.name);
	return leave(n > 0 ? SUCCESS : INVALID_VALUE);
}

API CUresult cuDeviceGetUuid(char s[16], CUdevice d) {
	CUresult r = enter_device(d, s);
	if (r)
		return r;
	memcpy(s, "emulated device", 16);
	s[15] = (char)d;
	return leave(SUCCESS);
}
API CUresult cuDeviceGetUuid_v2(char s[16], CUdevice d) { return cuDeviceGetUuid(s, d); }

API CUresult cuDeviceTotalMem_v2(size_t *n, CUdevice d) {
	CUresult r = enter_device(d, n);
	if (r)
		return r;
	*n = settings.memory;
	return leave(SUCCESS);
}

API CUresult cuDeviceComputeCapability(int *major, int *minor, CUdevice d) {
	CUresult r = enter_device(d, major ? minor : NULL);
	if (r)
		return r;
	*major = settings.capability / 10;
	*minor = settings.capability % 10;
	return leave(SUCCESS);
}

API CUresult cuDeviceGetPCIBusId(char *s, int n, CUdevice d) {
	CUresult r = enter_device(d, s);
	if (r)
		return r;
	snprintf(s, n > 0 ? (size_t)n : 0, "0000:%02x:00.0", d + 1);
	return leave(SUCCESS);
}

API CUresult cuDeviceCanAccessPeer(int *yes, CUdevice a, CUdevice b) {
	CUresult r = enter_device(a, yes);
	if (r)
		return r;
	*yes = 0;
	return leave(b < 0 || b >= settings.devices ? INVALID_DEVICE : SUCCESS);
}

// shared_limit is the most shared memory of a block whose kernel asks for more than the usual 48 KB.
u32 shared_limit(void) { return settings.capability >= 90 ? 227 << 10 : settings.capability == 80 ? 163 << 10 : 99 << 10; }

static const struct { int attribute, value; } attributes[] = {
	{1, 1024}, {2, 1024}, {3, 1024}, {4, 64}, {5, 2147483647}, {6, 65535}, {7, 65535}, // threads and blocks
	{8, 48 << 10}, {9, 64 << 10}, {10, 32}, {11, 2147483647}, {12, 65536},             // shared, constant, warp, pitch, registers
	{13, 1000000}, {14, 512}, {15, 1}, {16, 4}, {17, 0}, {18, 0}, {19, 1},              // clock … multiprocessors …
	{31, 1}, {32, 0}, {33, 1}, {34, 0}, {35, 0}, {36, 1000000}, {37, 256}, {38, 4 << 20}, {39, 2048}, {40, 2}, {41, 1}, {50, 0}, {51, 32},
	{78, 1}, {79, 1}, {80, 1}, {81, 164 << 10}, {82, 65536}, {83, 0}, {84, 0}, {85, 0}, {86, 0}, {87, 2}, {88, 0}, {89, 0}, {90, 0},
	{91, 0}, {95, 0}, {115, 0},
};

API CUresult cuDeviceGetAttribute(int *v, int attribute, CUdevice d) {
	CUresult r = enter_device(d, v);
	if (r)
		return r;
	switch (attribute) {
	case 20: *v = settings.mode; return leave(SUCCESS);
	case 75: *v = settings.capability / 10; return leave(SUCCESS);
	case 76: *v = settings.capability % 10; return leave(SUCCESS);
	case 97: *v = (int)shared_limit(); return leave(SUCCESS);
	}
	for (size_t n = 0; n < sizeof attributes / sizeof *attributes; n++)
		if (attributes[n].attribute == attribute) {
			*v = attributes[n].value;
			return leave(SUCCESS);
		}
	*v = 0; // textures, surfaces and other features that do not exist here
	return leave(attribute > 0 && attribute < 150 ? SUCCESS : INVALID_VALUE);
}
