// Which device is emulated. Each setting is an environment variable, so that a test can ask for two cards, an old driver or a failure
// without code of its own. docs/emulator.md lists them.
#include "driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

Settings settings;

static u64 size_setting(const char *name, u64 fallback) {
	const char *s = getenv(name);
	char *end;
	if (!s || !*s)
		return fallback;
	u64 v = strtoull(s, &end, 10);
	u32 shift = *end == 'K' ? 10 : *end == 'M' ? 20 : *end == 'G' ? 30 : 0;
	if (end == s || end[shift ? 1 : 0]) {
		fprintf(stderr, "emulated device: %s=%s: expected a number such as 128M; %llu is taken\n", name, s, (unsigned long long)fallback);
		return fallback;
	}
	return v << shift;
}

// version_setting reads 8.0 as 80 and, with a scale of 1000, 12.4 as 12040.
static int version_setting(const char *name, int fallback, int scale, int small) {
	const char *s = getenv(name);
	int major, minor;
	if (!s || !*s)
		return fallback;
	if (sscanf(s, "%d.%d", &major, &minor) != 2 || major < 0 || minor < 0 || minor > 9) {
		fprintf(stderr, "emulated device: %s=%s: expected two numbers and a dot, such as 8.0; the default is taken\n", name, s);
		return fallback;
	}
	return major * scale + minor * small;
}

void read_settings(void) {
	const char *name = getenv("GRPO_EMU_NAME");
	u64 n = size_setting("GRPO_EMU_DEVICES", 1);
	settings = (Settings){
		.devices = n > MAX_DEVICES ? MAX_DEVICES : (int)n,
		.name = name && *name ? name : "Emulated device",
		.capability = version_setting("GRPO_EMU_CAPABILITY", 80, 10, 1),
		.driver = version_setting("GRPO_EMU_DRIVER", 12040, 1000, 10),
		.mode = (int)size_setting("GRPO_EMU_MODE", 0),
		.inject = getenv("GRPO_EMU_ANSWER"),
		.memory = size_setting("GRPO_EMU_MEMORY", 4ull << 30),
		.allocation_limit = size_setting("GRPO_EMU_OOM_AFTER", UINT64_MAX),
		.fail_launch = size_setting("GRPO_EMU_FAIL_LAUNCH", 0),
		.lost_at = size_setting("GRPO_EMU_LOST_AT", 0),
		.busy = size_setting("GRPO_EMU_BUSY", 0) != 0,
		.idle = size_setting("GRPO_EMU_IDLE", 0) != 0,
	};
}

// newest_ptx is the PTX version of the driver's CUDA version.
int newest_ptx(void) {
	static const struct { int driver, ptx; } all[] = {{9000, 60}, {9010, 61}, {9020, 62}, {10000, 63}, {10010, 64}, {10020, 65}, {11000, 70},
		{11010, 71}, {11020, 72}, {11030, 73}, {11040, 74}, {11050, 75}, {11060, 76}, {11070, 77}, {11080, 78}, {12000, 80}, {12010, 81},
		{12020, 82}, {12030, 83}, {12040, 84}, {12050, 85}};
	int newest = 50;
	for (size_t n = 0; n < sizeof all / sizeof *all && all[n].driver <= settings.driver; n++)
		newest = all[n].ptx;
	return newest;
}
