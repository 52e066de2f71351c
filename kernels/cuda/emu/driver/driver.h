// The driver interface of the emulated device: what a libcuda.so.1 answers, as far as the project and its libraries call it.
//
//   settings.c  which device is emulated, and which of its calls fail: environment variables
//   call.c      the way into every call: one at a time, counted, with the error that sticks
//   device.c, context.c, memory.c, copy.c, stream.c, module.c, launch.c   the calls by subject;  absent.c  calls that are refused
#ifndef GRPO_EMU_DRIVER_H
#define GRPO_EMU_DRIVER_H
#include "../machine/machine.h"

typedef int CUresult;
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef struct Context *CUcontext;
typedef struct Stream *CUstream;
typedef struct Event *CUevent;
typedef struct Module *CUmodule;
typedef struct Kernel *CUfunction;

enum {
	SUCCESS = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NOT_INITIALIZED = 3, DEVICE_UNAVAILABLE = 46, NO_DEVICE = 100, INVALID_DEVICE = 101,
	INVALID_IMAGE = 200, INVALID_CONTEXT = 201, NO_BINARY_FOR_GPU = 209, INVALID_PTX = 218, UNSUPPORTED_PTX_VERSION = 222,
	FILE_NOT_FOUND = 301, INVALID_HANDLE = 400, NOT_FOUND = 500, ILLEGAL_ADDRESS = 700, LAUNCH_OUT_OF_RESOURCES = 701, LAUNCH_TIMEOUT = 702,
	PRIMARY_CONTEXT_ACTIVE = 708, CONTEXT_IS_DESTROYED = 709, HOST_MEMORY_ALREADY_REGISTERED = 712, HOST_MEMORY_NOT_REGISTERED = 713,
	ILLEGAL_INSTRUCTION = 715, MISALIGNED_ADDRESS = 716, LAUNCH_FAILED = 719, NOT_SUPPORTED = 801, UNKNOWN = 999
};
enum { MOST_DEVICES = 8, MOST_STREAMS = 255, HOST = MOST_STREAMS, ACTORS };

#define API __attribute__((visibility("default")))

typedef struct {
	int devices, capability, driver, mode;
	const char *name, *answer; // answer: FUNCTION:CODE, or none
	u64 memory, memory_ends;   // memory_ends: allocations beyond it fail
	u64 fail_launch, lost_at;  // the nth launch, the nth call; 0: none
	bool busy, idle;           // idle: queued operations are not done
} Settings;
extern Settings settings;
void read_settings(void);
int newest_ptx(void);

typedef struct Context {
	bool alive, primary;
	int device, retained;
	u32 flags;
	u64 used;                  // bytes
	CUresult stuck;            // the error that all later calls return
	struct Context *next;
} Context;

// Every call calls enter first and leave last. If enter returns an error, the call returns it.
typedef enum { ALWAYS, INITIALIZED, IN_CONTEXT } Needs;
CUresult enter_call(Needs needs, const char *function);
#define enter(needs) enter_call(needs, __func__)
CUresult leave(CUresult r);
extern bool initialized;
extern u64 calls;

// The counters, in the order of Counts in emu's counts.go.
typedef enum { CALLS, LAUNCHES, UPLOADS, DOWNLOADS, COPIES, FILLS, WAITS, CONTEXTS, COUNTED } Counted;
void count(Counted what);
Context *current(void);
bool in_use(void);
void fail_context(Kind kind, const char *text);

// Owned is memory or another resource that must be freed.
typedef enum { DEVICE_MEMORY, PINNED_MEMORY, STREAM, EVENT, MODULE } What;
enum { KINDS_OWNED = MODULE + 1 };
typedef struct Owned {
	What what;
	void *thing;               // Allocation, the host's memory, Stream, Event, Module
	u64 size, call;
	Context *context;
	bool told;
	struct Owned *next;
} Owned;
Owned *own(What what, void *thing, u64 size);
Owned *owned(What what, const void *thing);
void disown(Owned *o);
void tell_leaks(const Context *c);
void destroy_all_of(Context *c);

u32 shared_limit(void);

CUresult take_memory(CUdeviceptr *p, size_t n);
void free_memory(Owned *o);
Owned *pinned_memory(const void *host);

// Stream has knows[t]: how many operations of stream t are known to precede its next one.
struct Stream {
	u32 index;
	bool used, non_blocking;
	int priority;
	Context *context;
};
struct Event {
	u32 knows[ACTORS];
	bool recorded, untimed;
	double time;
};
CUresult get_stream(CUstream handle, struct Stream **s);
u32 begin_operation(struct Stream *s);
void host_waits(const struct Stream *s);
void host_waits_for_all(void);
void defer_copy(const struct Stream *s, void *host, const void *bytes, u64 n, bool to_host);
bool is_default(const struct Stream *s);
void free_stream(struct Stream *s);
extern struct Stream default_stream;
#endif
