#include "probe.h"

#include <dlfcn.h>

#define DEFINE(name, parameters) int(*name) parameters;
CALLS(DEFINE)
Handle module;
u64 (*grpo_emu_instructions)(void);

const char *error_name(int r) {
	const char *s = NULL;
	cuGetErrorName(r, &s);
	return s ? s : "no name";
}

void check(int r, const char *call) {
	if (!r)
		return;
	printf("%.*s: %s\n", (int)strcspn(call, "("), call, error_name(r));
	fflush(stdout);
	_Exit(3);
}

static u64 state = 1;

u32 random_u32(void) {
	state = state * 6364136223846793005u + 1442695040888963407u;
	return (u32)(state >> 33) ^ (u32)(state >> 18);
}
float random_float(void) { return (float)(s32)random_u32() * 0x1p-31f; }

u16 bf16(float f) {
	u32 b;
	memcpy(&b, &f, 4);
	return (u16)((b + 0x7fff + (b >> 16 & 1)) >> 16);
}
float widened(u16 h) {
	u32 b = (u32)h << 16;
	float f;
	memcpy(&f, &b, 4);
	return f;
}

Handle kernel(const char *name) {
	Handle f;
	must(cuModuleGetFunction(&f, module, name));
	return f;
}
Pointer allocate(size_t n) {
	Pointer p;
	must(cuMemAlloc_v2(&p, n));
	return p;
}
Pointer upload(const void *from, size_t n) {
	Pointer p = allocate(n);
	must(cuMemcpyHtoD_v2(p, from, n));
	return p;
}
void *download(Pointer p, size_t n) {
	void *to = malloc(n);
	must(cuMemcpyDtoH_v2(to, p, n));
	return to;
}
void release(Pointer p) { must(cuMemFree_v2(p)); }

int launch(const char *name, u32 blocks, u32 threads, void **arguments) {
	must(cuLaunchKernel(kernel(name), blocks, 1, 1, threads, 1, 1, 0, NULL, arguments, NULL));
	return cuCtxSynchronize();
}

// print_checksum prints a checksum, to compare runs.
void print_checksum(const char *name, const void *p, size_t n) {
	u64 h = 14695981039346656037u;
	for (size_t b = 0; b < n; b++)
		h = (h ^ ((const unsigned char *)p)[b]) * 1099511628211u;
	printf("%s %016llx\n", name, (unsigned long long)h);
}

void expect_equal(const char *what, const void *got, const void *want, size_t n, size_t each) {
	size_t wrong = 0, first = 0;
	for (size_t e = n; e-- > 0;)
		if (memcmp((const char *)got + e * each, (const char *)want + e * each, each))
			wrong++, first = e;
	if (!wrong)
		return;
	u64 g = 0, w = 0;
	memcpy(&g, (const char *)got + first * each, each);
	memcpy(&w, (const char *)want + first * each, each);
	printf("%s: %zu of %zu differ, the first at %zu: got %llx, want %llx\n", what, wrong, n, first, (unsigned long long)g,
		(unsigned long long)w);
}

char *read_file(const char *path) {
	FILE *f = fopen(path, "rb");
	if (!f) {
		printf("no file %s\n", path);
		exit(2);
	}
	char *text = calloc(1, 1 << 22);
	size_t n = fread(text, 1, (1 << 22) - 1, f);
	text[n] = 0;
	fclose(f);
	return text;
}

// load prints the driver's message about a module that it refuses.
static void load(const char *path) {
	char log[1000] = "", *text = read_file(path);
	int options[] = {5, 6};
	void *values[] = {log, (void *)sizeof log};
	int r = cuModuleLoadDataEx(&module, text, 2, options, values);
	free(text);
	if (r) {
		printf("%s\n%s\n", error_name(r), log);
		exit(3);
	}
}

// probe LIBRARY PTX WHAT [NAME]
int main(int n, char **argument) {
	void *library = n > 3 ? dlopen(argument[1], RTLD_NOW) : NULL;
	if (!library) {
		printf("%s\n", n > 3 ? dlerror() : "probe LIBRARY PTX kernels|together|zoo|right|wrong|driver|speed [NAME]");
		return 2;
	}
#define FIND(name, parameters) *(void **)&name = dlsym(library, #name);
	CALLS(FIND)
	*(void **)&grpo_emu_instructions = dlsym(library, "grpo_emu_instructions");
	const char *what = argument[3], *name = n > 4 ? argument[4] : "";
	Handle context;
	if (strcmp(what, "driver"))
		must(cuInit(0));
	if (strcmp(what, "driver")) {
		must(cuDevicePrimaryCtxRetain(&context, 0));
		must(cuCtxSetCurrent(context));
		load(argument[2]);
	}
	if (!strcmp(what, "kernels"))
		run_kernels(name);
	else if (!strcmp(what, "zoo"))
		run_zoo();
	else if (!strcmp(what, "together"))
		run_together();
	else if (!strcmp(what, "driver"))
		run_driver(argument[2]);
	else if (!strcmp(what, "speed"))
		run_speed();
	else
		run_bug(name, !strcmp(what, "right"));
	if (module && strcmp(what, "driver")) {
		must(cuModuleUnload(module));
		must(cuDevicePrimaryCtxRelease_v2(0));
	}
	puts("done");
	return 0;
}
