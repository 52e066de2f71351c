// Modules: PTX in, kernels and variables out.
#include "driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { INFO_LOG = 3, INFO_LOG_SIZE, ERROR_LOG, ERROR_LOG_SIZE };

static CUresult load_text(CUmodule *m, const char *text, u32 n, const int *options, void **values) {
	char *log = NULL, own_log[500];
	size_t log_size = 0;
	int r, size_at = -1;
	for (u32 o = 0; o < n; o++) {
		if (options[o] == ERROR_LOG)
			log = values[o];
		else if (options[o] == ERROR_LOG_SIZE)
			log_size = (size_t)(uintptr_t)values[o] & UINT32_MAX, size_at = (int)o;
		else if (options[o] == INFO_LOG_SIZE)
			values[o] = NULL; // the log is empty
	}
	if (!log || !log_size)
		log = own_log, log_size = sizeof own_log;
	log[0] = 0;
	*m = load_module(text, newest_ptx(), settings.capability, log, log_size, &r);
	if (size_at >= 0)
		values[size_at] = (void *)(uintptr_t)strlen(log);
	if (*m)
		add_resource(MODULE, *m, 0);
	return r;
}

API CUresult cuModuleLoadDataEx(CUmodule *m, const void *image, u32 n, int *options, void **values) {
	CUresult r = enter(IN_CONTEXT);
	if (r)
		return r;
	if (!m || !image || (n && (!options || !values)))
		return leave(INVALID_VALUE);
	if (!memcmp(image, "\177ELF", 4))
		return leave(NO_BINARY_FOR_GPU); // binary code of a real card
	return leave(load_text(m, image, n, options, values));
}
API CUresult cuModuleLoadData(CUmodule *m, const void *image) { return cuModuleLoadDataEx(m, image, 0, NULL, NULL); }

API CUresult cuModuleLoad(CUmodule *m, const char *path) {
	FILE *f = path ? fopen(path, "rb") : NULL;
	if (!f)
		return FILE_NOT_FOUND;
	size_t n = 0, capacity = 0, got = 0;
	char *text = NULL;
	do {
		n += got;
		if (capacity < n + 65536 && !(text = realloc(text, capacity = (n + 65536) * 2)))
			abort();
	} while ((got = fread(text + n, 1, capacity - n - 1, f)) > 0);
	text[n] = 0;
	fclose(f);
	CUresult r = cuModuleLoadData(m, text);
	free(text);
	return r;
}

API CUresult cuModuleUnload(CUmodule m) {
	CUresult r = enter(IN_CONTEXT);
	if (r)
		return r;
	Resource *o = find_resource(MODULE, m);
	if (o) {
		remove_resource(o);
		unload_module(m);
	}
	return leave(o ? SUCCESS : INVALID_HANDLE);
}

API CUresult cuModuleGetFunction(CUfunction *f, CUmodule m, const char *name) {
	CUresult r = enter(IN_CONTEXT);
	if (r)
		return r;
	if (!f || !name || !find_resource(MODULE, m))
		return leave(f && name ? INVALID_HANDLE : INVALID_VALUE);
	for (*f = m->kernels; *f && strcmp((*f)->name, name); *f = (*f)->next) {}
	return leave(*f ? SUCCESS : NOT_FOUND);
}

API CUresult cuModuleGetGlobal_v2(CUdeviceptr *p, size_t *size, CUmodule m, const char *name) {
	CUresult r = enter(IN_CONTEXT);
	if (r)
		return r;
	if (!name || !find_resource(MODULE, m))
		return leave(name ? INVALID_HANDLE : INVALID_VALUE);
	for (int n = 0; n < m->variables.n; n++)
		if (!strcmp(m->variables.all[n].name, name)) {
			if (p)
				*p = m->allocations[n]->base;
			if (size)
				*size = m->variables.all[n].size;
			return leave(SUCCESS);
		}
	return leave(NOT_FOUND);
}
