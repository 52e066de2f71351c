// The driver interface of the emulated device: the functions of a libcuda.so.1 that the project and its libraries call.
//
//   settings.c  which device is emulated, and which of its calls fail: environment variables
//   call.c      entry and exit of every call: one at a time, counted, with the sticky error
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
enum { MAX_DEVICES = 8, MAX_STREAMS = 255, HOST = MAX_STREAMS, CLOCKS };

#define API __attribute__((visibility("default")))

typedef struct {
	int devices, capability, driver, mode;
	const char *name, *inject; // inject: FUNCTION:CODE, an error to return; or none
	u64 memory, allocation_limit; // allocations beyond the limit fail
	u64 fail_launch, lost_at;  // the nth launch, the nth call; 0: none
	bool busy, idle;           // idle: launches, copies and fills are not executed
} Settings;
extern Settings settings;
void read_settings(void);
int newest_ptx(void);

typedef struct Context {
	bool alive, primary;
	int device, retained;
	u32 flags;
	u64 used;                  // bytes
	CUresult sticky_error;     // all later calls return it
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
typedef enum { CALLS, LAUNCHES, UPLOADS, DOWNLOADS, COPIES, FILLS, WAITS, CONTEXTS, COUNTERS } Counter;
void count(Counter what);
Context *current(void);
bool in_use(void);
void fail_context(Kind kind, const char *text);

// Resource is memory or another resource that must be freed.
typedef enum { DEVICE_MEMORY, PINNED_MEMORY, STREAM, EVENT, MODULE } ResourceKind;
enum { RESOURCE_KINDS = MODULE + 1 };
typedef struct Resource {
	ResourceKind what;
	void *handle;              // Allocation, the host's memory, Stream, Event, Module
	u64 size, call;
	Context *context;
	bool reported;
	struct Resource *next;
} Resource;
Resource *add_resource(ResourceKind what, void *handle, u64 size);
Resource *find_resource(ResourceKind what, const void *handle);
void remove_resource(Resource *o);
void report_leaks(const Context *c);
void destroy_resources(Context *c);

u32 shared_limit(void);

CUresult allocate_memory(CUdeviceptr *p, size_t n);
void free_memory(Resource *o);
Resource *find_pinned(const void *host);

struct Stream {
	u32 index;
	bool used, non_blocking;
	int priority;
	Context *context;
};
struct Event {
	u32 clock[CLOCKS];         // a vector clock: see stream.c
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
