// The driver's functions: CALL(name in C, entry point of the library that has this prototype, parameters). The
// file that includes this one defines CALL first. cuInit is missing: the loader defines it.

// the driver and its devices
CALL(cuDriverGetVersion, cuDriverGetVersion, (int *version))
CALL(cuGetErrorName, cuGetErrorName, (CUresult code, const char **name))
CALL(cuGetErrorString, cuGetErrorString, (CUresult code, const char **text))
CALL(cuDeviceGet, cuDeviceGet, (CUdevice *device, int ordinal))
CALL(cuDeviceGetCount, cuDeviceGetCount, (int *count))
CALL(cuDeviceGetName, cuDeviceGetName, (char *name, int length, CUdevice device))
CALL(cuDeviceGetUuid, cuDeviceGetUuid, (CUuuid *uuid, CUdevice device))
CALL(cuDeviceTotalMem, cuDeviceTotalMem_v2, (size_t *bytes, CUdevice device))
CALL(cuDeviceGetAttribute, cuDeviceGetAttribute, (int *value, CUdevice_attribute attribute, CUdevice device))
CALL(cuDeviceCanAccessPeer, cuDeviceCanAccessPeer, (int *can, CUdevice device, CUdevice peer))
CALL(cuDeviceGetP2PAttribute, cuDeviceGetP2PAttribute, (int *value, CUdevice_P2PAttribute attribute, CUdevice from, CUdevice to))

// contexts
CALL(cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain, (CUcontext *context, CUdevice device))
CALL(cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2, (CUdevice device))
CALL(cuDevicePrimaryCtxSetFlags, cuDevicePrimaryCtxSetFlags_v2, (CUdevice device, unsigned int flags))
CALL(cuDevicePrimaryCtxGetState, cuDevicePrimaryCtxGetState, (CUdevice device, unsigned int *flags, int *active))
CALL(cuDevicePrimaryCtxReset, cuDevicePrimaryCtxReset_v2, (CUdevice device))
CALL(cuCtxCreate, cuCtxCreate_v2, (CUcontext *context, unsigned int flags, CUdevice device))
CALL(cuCtxDestroy, cuCtxDestroy_v2, (CUcontext context))
CALL(cuCtxPushCurrent, cuCtxPushCurrent_v2, (CUcontext context))
CALL(cuCtxPopCurrent, cuCtxPopCurrent_v2, (CUcontext *context))
CALL(cuCtxSetCurrent, cuCtxSetCurrent, (CUcontext context))
CALL(cuCtxGetCurrent, cuCtxGetCurrent, (CUcontext *context))
CALL(cuCtxGetDevice, cuCtxGetDevice, (CUdevice *device))
CALL(cuCtxGetFlags, cuCtxGetFlags, (unsigned int *flags))
CALL(cuCtxSynchronize, cuCtxSynchronize, (void))
CALL(cuCtxSetLimit, cuCtxSetLimit, (CUlimit limit, size_t value))
CALL(cuCtxGetLimit, cuCtxGetLimit, (size_t *value, CUlimit limit))
CALL(cuCtxGetCacheConfig, cuCtxGetCacheConfig, (CUfunc_cache *config))
CALL(cuCtxSetCacheConfig, cuCtxSetCacheConfig, (CUfunc_cache config))
CALL(cuCtxGetSharedMemConfig, cuCtxGetSharedMemConfig, (CUsharedconfig *config))
CALL(cuCtxSetSharedMemConfig, cuCtxSetSharedMemConfig, (CUsharedconfig config))
CALL(cuCtxGetApiVersion, cuCtxGetApiVersion, (CUcontext context, unsigned int *version))
CALL(cuCtxGetStreamPriorityRange, cuCtxGetStreamPriorityRange, (int *least, int *greatest))
CALL(cuCtxResetPersistingL2Cache, cuCtxResetPersistingL2Cache, (void))
CALL(cuCtxEnablePeerAccess, cuCtxEnablePeerAccess, (CUcontext peer, unsigned int flags))
CALL(cuCtxDisablePeerAccess, cuCtxDisablePeerAccess, (CUcontext peer))

// modules and functions
CALL(cuModuleLoad, cuModuleLoad, (CUmodule *module, const char *file))
CALL(cuModuleLoadData, cuModuleLoadData, (CUmodule *module, const void *image))
CALL(cuModuleLoadDataEx, cuModuleLoadDataEx,
	(CUmodule *module, const void *image, unsigned int count, CUjit_option *options, void **values))
CALL(cuModuleLoadFatBinary, cuModuleLoadFatBinary, (CUmodule *module, const void *image))
CALL(cuModuleUnload, cuModuleUnload, (CUmodule module))
CALL(cuModuleGetFunction, cuModuleGetFunction, (CUfunction *function, CUmodule module, const char *name))
CALL(cuModuleGetGlobal, cuModuleGetGlobal_v2, (CUdeviceptr *pointer, size_t *bytes, CUmodule module, const char *name))
CALL(cuModuleGetTexRef, cuModuleGetTexRef, (CUtexref *texture, CUmodule module, const char *name))
CALL(cuModuleGetSurfRef, cuModuleGetSurfRef, (CUsurfref *surface, CUmodule module, const char *name))
CALL(cuLinkCreate, cuLinkCreate_v2, (unsigned int count, CUjit_option *options, void **values, CUlinkState *state))
CALL(cuLinkAddData, cuLinkAddData_v2, (CUlinkState state, CUjitInputType type, void *data, size_t bytes, const char *name,
	unsigned int count, CUjit_option *options, void **values))
CALL(cuLinkAddFile, cuLinkAddFile_v2, (CUlinkState state, CUjitInputType type, const char *path,
	unsigned int count, CUjit_option *options, void **values))
CALL(cuLinkComplete, cuLinkComplete, (CUlinkState state, void **cubin, size_t *bytes))
CALL(cuLinkDestroy, cuLinkDestroy, (CUlinkState state))
CALL(cuFuncGetAttribute, cuFuncGetAttribute, (int *value, CUfunction_attribute attribute, CUfunction function))
CALL(cuFuncSetAttribute, cuFuncSetAttribute, (CUfunction function, CUfunction_attribute attribute, int value))
CALL(cuFuncSetCacheConfig, cuFuncSetCacheConfig, (CUfunction function, CUfunc_cache config))
CALL(cuFuncSetSharedMemConfig, cuFuncSetSharedMemConfig, (CUfunction function, CUsharedconfig config))
CALL(cuLaunchKernel, cuLaunchKernel, (CUfunction function, unsigned int gridX, unsigned int gridY, unsigned int gridZ,
	unsigned int blockX, unsigned int blockY, unsigned int blockZ, unsigned int shared, CUstream stream, void **parameters, void **extra))
CALL(cuOccupancyMaxActiveBlocksPerMultiprocessor, cuOccupancyMaxActiveBlocksPerMultiprocessor,
	(int *blocks, CUfunction function, int block, size_t shared))
CALL(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags,
	(int *blocks, CUfunction function, int block, size_t shared, unsigned int flags))

// memory
CALL(cuMemGetInfo, cuMemGetInfo_v2, (size_t *free, size_t *total))
CALL(cuMemAlloc, cuMemAlloc_v2, (CUdeviceptr *pointer, size_t bytes))
CALL(cuMemAllocPitch, cuMemAllocPitch_v2, (CUdeviceptr *pointer, size_t *pitch, size_t width, size_t height, unsigned int element))
CALL(cuMemAllocManaged, cuMemAllocManaged, (CUdeviceptr *pointer, size_t bytes, unsigned int flags))
CALL(cuMemFree, cuMemFree_v2, (CUdeviceptr pointer))
CALL(cuMemHostAlloc, cuMemHostAlloc, (void **pointer, size_t bytes, unsigned int flags))
CALL(cuMemFreeHost, cuMemFreeHost, (void *pointer))
CALL(cuMemGetAddressRange, cuMemGetAddressRange_v2, (CUdeviceptr *base, size_t *bytes, CUdeviceptr pointer))
CALL(cuMemAdvise, cuMemAdvise, (CUdeviceptr pointer, size_t bytes, CUmem_advise advice, CUdevice device))
CALL(cuMemPrefetchAsync, cuMemPrefetchAsync, (CUdeviceptr pointer, size_t bytes, CUdevice device, CUstream stream))
CALL(cuPointerGetAttribute, cuPointerGetAttribute, (void *value, CUpointer_attribute attribute, CUdeviceptr pointer))
CALL(cuPointerSetAttribute, cuPointerSetAttribute, (const void *value, CUpointer_attribute attribute, CUdeviceptr pointer))

// synchronous copies
CALL(cuMemcpy, cuMemcpy, (CUdeviceptr to, CUdeviceptr from, size_t bytes))
CALL(cuMemcpyPeer, cuMemcpyPeer, (CUdeviceptr to, CUcontext there, CUdeviceptr from, CUcontext here, size_t bytes))
CALL(cuMemcpyHtoD, cuMemcpyHtoD_v2, (CUdeviceptr to, const void *from, size_t bytes))
CALL(cuMemcpyDtoH, cuMemcpyDtoH_v2, (void *to, CUdeviceptr from, size_t bytes))
CALL(cuMemcpyDtoD, cuMemcpyDtoD_v2, (CUdeviceptr to, CUdeviceptr from, size_t bytes))
CALL(cuMemcpyDtoA, cuMemcpyDtoA_v2, (CUarray to, size_t offset, CUdeviceptr from, size_t bytes))
CALL(cuMemcpyAtoD, cuMemcpyAtoD_v2, (CUdeviceptr to, CUarray from, size_t offset, size_t bytes))
CALL(cuMemcpyHtoA, cuMemcpyHtoA_v2, (CUarray to, size_t offset, const void *from, size_t bytes))
CALL(cuMemcpyAtoH, cuMemcpyAtoH_v2, (void *to, CUarray from, size_t offset, size_t bytes))
CALL(cuMemcpyAtoA, cuMemcpyAtoA_v2, (CUarray to, size_t toOffset, CUarray from, size_t fromOffset, size_t bytes))
CALL(cuMemcpy2D, cuMemcpy2D_v2, (const CUDA_MEMCPY2D *copy))
CALL(cuMemcpy2DUnaligned, cuMemcpy2DUnaligned_v2, (const CUDA_MEMCPY2D *copy))
CALL(cuMemcpy3D, cuMemcpy3D_v2, (const CUDA_MEMCPY3D *copy))
CALL(cuMemcpy3DPeer, cuMemcpy3DPeer, (const CUDA_MEMCPY3D_PEER *copy))

// asynchronous copies
CALL(cuMemcpyAsync, cuMemcpyAsync, (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream))
CALL(cuMemcpyPeerAsync, cuMemcpyPeerAsync,
	(CUdeviceptr to, CUcontext there, CUdeviceptr from, CUcontext here, size_t bytes, CUstream stream))
CALL(cuMemcpyHtoDAsync, cuMemcpyHtoDAsync_v2, (CUdeviceptr to, const void *from, size_t bytes, CUstream stream))
CALL(cuMemcpyDtoHAsync, cuMemcpyDtoHAsync_v2, (void *to, CUdeviceptr from, size_t bytes, CUstream stream))
CALL(cuMemcpyDtoDAsync, cuMemcpyDtoDAsync_v2, (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream))
CALL(cuMemcpyHtoAAsync, cuMemcpyHtoAAsync_v2, (CUarray to, size_t offset, const void *from, size_t bytes, CUstream stream))
CALL(cuMemcpyAtoHAsync, cuMemcpyAtoHAsync_v2, (void *to, CUarray from, size_t offset, size_t bytes, CUstream stream))
CALL(cuMemcpy2DAsync, cuMemcpy2DAsync_v2, (const CUDA_MEMCPY2D *copy, CUstream stream))
CALL(cuMemcpy3DAsync, cuMemcpy3DAsync_v2, (const CUDA_MEMCPY3D *copy, CUstream stream))
CALL(cuMemcpy3DPeerAsync, cuMemcpy3DPeerAsync, (const CUDA_MEMCPY3D_PEER *copy, CUstream stream))

// fills
CALL(cuMemsetD8, cuMemsetD8_v2, (CUdeviceptr to, unsigned char value, size_t count))
CALL(cuMemsetD16, cuMemsetD16_v2, (CUdeviceptr to, unsigned short value, size_t count))
CALL(cuMemsetD32, cuMemsetD32_v2, (CUdeviceptr to, unsigned int value, size_t count))
CALL(cuMemsetD2D8, cuMemsetD2D8_v2, (CUdeviceptr to, size_t pitch, unsigned char value, size_t width, size_t height))
CALL(cuMemsetD2D16, cuMemsetD2D16_v2, (CUdeviceptr to, size_t pitch, unsigned short value, size_t width, size_t height))
CALL(cuMemsetD2D32, cuMemsetD2D32_v2, (CUdeviceptr to, size_t pitch, unsigned int value, size_t width, size_t height))
CALL(cuMemsetD8Async, cuMemsetD8Async, (CUdeviceptr to, unsigned char value, size_t count, CUstream stream))
CALL(cuMemsetD16Async, cuMemsetD16Async, (CUdeviceptr to, unsigned short value, size_t count, CUstream stream))
CALL(cuMemsetD32Async, cuMemsetD32Async, (CUdeviceptr to, unsigned int value, size_t count, CUstream stream))
CALL(cuMemsetD2D8Async, cuMemsetD2D8Async,
	(CUdeviceptr to, size_t pitch, unsigned char value, size_t width, size_t height, CUstream stream))
CALL(cuMemsetD2D16Async, cuMemsetD2D16Async,
	(CUdeviceptr to, size_t pitch, unsigned short value, size_t width, size_t height, CUstream stream))
CALL(cuMemsetD2D32Async, cuMemsetD2D32Async,
	(CUdeviceptr to, size_t pitch, unsigned int value, size_t width, size_t height, CUstream stream))

// streams and events
CALL(cuStreamCreate, cuStreamCreate, (CUstream *stream, unsigned int flags))
CALL(cuStreamCreateWithPriority, cuStreamCreateWithPriority, (CUstream *stream, unsigned int flags, int priority))
CALL(cuStreamDestroy, cuStreamDestroy_v2, (CUstream stream))
CALL(cuStreamGetPriority, cuStreamGetPriority, (CUstream stream, int *priority))
CALL(cuStreamGetFlags, cuStreamGetFlags, (CUstream stream, unsigned int *flags))
CALL(cuStreamWaitEvent, cuStreamWaitEvent, (CUstream stream, CUevent event, unsigned int flags))
CALL(cuStreamAttachMemAsync, cuStreamAttachMemAsync, (CUstream stream, CUdeviceptr pointer, size_t bytes, unsigned int flags))
CALL(cuStreamQuery, cuStreamQuery, (CUstream stream))
CALL(cuStreamSynchronize, cuStreamSynchronize, (CUstream stream))
CALL(cuStreamWaitValue32, cuStreamWaitValue32_v2, (CUstream stream, CUdeviceptr at, cuuint32_t value, unsigned int flags)) // from 11.7
CALL(cuStreamWriteValue32, cuStreamWriteValue32_v2, (CUstream stream, CUdeviceptr at, cuuint32_t value, unsigned int flags)) // from 11.7
CALL(cuEventCreate, cuEventCreate, (CUevent *event, unsigned int flags))
CALL(cuEventDestroy, cuEventDestroy_v2, (CUevent event))
CALL(cuEventRecord, cuEventRecord, (CUevent event, CUstream stream))
CALL(cuEventQuery, cuEventQuery, (CUevent event))
CALL(cuEventSynchronize, cuEventSynchronize, (CUevent event))
CALL(cuEventElapsedTime, cuEventElapsedTime, (float *milliseconds, CUevent from, CUevent to))

// graphs
CALL(cuGraphCreate, cuGraphCreate, (CUgraph *graph, unsigned int flags))
CALL(cuGraphDestroy, cuGraphDestroy, (CUgraph graph))
CALL(cuGraphClone, cuGraphClone, (CUgraph *clone, CUgraph graph))
CALL(cuGraphAddDependencies, cuGraphAddDependencies, (CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t count))
CALL(cuGraphAddEmptyNode, cuGraphAddEmptyNode, (CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count))
CALL(cuGraphAddHostNode, cuGraphAddHostNode,
	(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count, const CUDA_HOST_NODE_PARAMS *call))
CALL(cuGraphAddKernelNode, cuGraphAddKernelNode, // cuGraphAddKernelNode_v2 takes a later structure with more fields
	(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count, const CUDA_KERNEL_NODE_PARAMS *launch))
CALL(cuGraphAddMemcpyNode, cuGraphAddMemcpyNode,
	(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count, const CUDA_MEMCPY3D *copy, CUcontext context))
CALL(cuGraphAddMemsetNode, cuGraphAddMemsetNode,
	(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count, const CUDA_MEMSET_NODE_PARAMS *fill, CUcontext context))
CALL(cuGraphAddChildGraphNode, cuGraphAddChildGraphNode,
	(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count, CUgraph child))
CALL(cuGraphGetEdges, cuGraphGetEdges, (CUgraph graph, CUgraphNode *from, CUgraphNode *to, size_t *count))
CALL(cuGraphDestroyNode, cuGraphDestroyNode, (CUgraphNode node))
CALL(cuGraphExecDestroy, cuGraphExecDestroy, (CUgraphExec graph))

// arrays, textures and surfaces: called by cu alone
CALL(cuArrayCreate, cuArrayCreate_v2, (CUarray *array, const CUDA_ARRAY_DESCRIPTOR *shape))
CALL(cuArrayGetDescriptor, cuArrayGetDescriptor_v2, (CUDA_ARRAY_DESCRIPTOR *shape, CUarray array))
CALL(cuArrayDestroy, cuArrayDestroy, (CUarray array))
CALL(cuArray3DCreate, cuArray3DCreate_v2, (CUarray *array, const CUDA_ARRAY3D_DESCRIPTOR *shape))
CALL(cuArray3DGetDescriptor, cuArray3DGetDescriptor_v2, (CUDA_ARRAY3D_DESCRIPTOR *shape, CUarray array))
CALL(cuTexRefSetArray, cuTexRefSetArray, (CUtexref texture, CUarray array, unsigned int flags))
CALL(cuTexRefSetAddress, cuTexRefSetAddress_v2, (size_t *offset, CUtexref texture, CUdeviceptr pointer, size_t bytes))
CALL(cuTexRefSetAddress2D, cuTexRefSetAddress2D_v3,
	(CUtexref texture, const CUDA_ARRAY_DESCRIPTOR *shape, CUdeviceptr pointer, size_t pitch))
CALL(cuTexRefSetFormat, cuTexRefSetFormat, (CUtexref texture, CUarray_format format, int channels))
CALL(cuTexRefSetAddressMode, cuTexRefSetAddressMode, (CUtexref texture, int dimension, CUaddress_mode mode))
CALL(cuTexRefSetFilterMode, cuTexRefSetFilterMode, (CUtexref texture, CUfilter_mode mode))
CALL(cuTexRefSetMipmapFilterMode, cuTexRefSetMipmapFilterMode, (CUtexref texture, CUfilter_mode mode))
CALL(cuTexRefSetMipmapLevelBias, cuTexRefSetMipmapLevelBias, (CUtexref texture, float bias))
CALL(cuTexRefSetMipmapLevelClamp, cuTexRefSetMipmapLevelClamp, (CUtexref texture, float least, float most))
CALL(cuTexRefSetMaxAnisotropy, cuTexRefSetMaxAnisotropy, (CUtexref texture, unsigned int most))
CALL(cuTexRefSetBorderColor, cuTexRefSetBorderColor, (CUtexref texture, float *color))
CALL(cuTexRefSetFlags, cuTexRefSetFlags, (CUtexref texture, unsigned int flags))
CALL(cuTexRefGetAddress, cuTexRefGetAddress_v2, (CUdeviceptr *pointer, CUtexref texture))
CALL(cuTexRefGetArray, cuTexRefGetArray, (CUarray *array, CUtexref texture))
CALL(cuTexRefGetAddressMode, cuTexRefGetAddressMode, (CUaddress_mode *mode, CUtexref texture, int dimension))
CALL(cuTexRefGetFilterMode, cuTexRefGetFilterMode, (CUfilter_mode *mode, CUtexref texture))
CALL(cuTexRefGetFormat, cuTexRefGetFormat, (CUarray_format *format, int *channels, CUtexref texture))
CALL(cuTexRefGetMaxAnisotropy, cuTexRefGetMaxAnisotropy, (int *most, CUtexref texture))
CALL(cuTexRefGetBorderColor, cuTexRefGetBorderColor, (float *color, CUtexref texture))
CALL(cuTexRefGetFlags, cuTexRefGetFlags, (unsigned int *flags, CUtexref texture))
CALL(cuSurfRefSetArray, cuSurfRefSetArray, (CUsurfref surface, CUarray array, unsigned int flags))
CALL(cuSurfRefGetArray, cuSurfRefGetArray, (CUarray *array, CUsurfref surface))
