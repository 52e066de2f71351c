// Calls of gorgonia.org/cu that this device does not support: textures, arrays, 2D and 3D copies, peers, managed memory, linking, graphs.
#include "driver.h"

#define ABSENT(name) API CUresult name(void) { return NOT_SUPPORTED; }

ABSENT(cuArray3DCreate_v2) ABSENT(cuArray3DGetDescriptor_v2) ABSENT(cuArrayCreate_v2) ABSENT(cuArrayDestroy) ABSENT(cuArrayGetDescriptor_v2)
ABSENT(cuCtxDisablePeerAccess) ABSENT(cuCtxEnablePeerAccess) ABSENT(cuDeviceGetP2PAttribute)
ABSENT(cuGraphAddChildGraphNode) ABSENT(cuGraphAddDependencies) ABSENT(cuGraphAddEmptyNode) ABSENT(cuGraphAddHostNode)
ABSENT(cuGraphAddKernelNode) ABSENT(cuGraphAddMemcpyNode) ABSENT(cuGraphAddMemsetNode) ABSENT(cuGraphClone) ABSENT(cuGraphCreate)
ABSENT(cuGraphDestroy) ABSENT(cuGraphDestroyNode) ABSENT(cuGraphExecDestroy) ABSENT(cuGraphGetEdges) ABSENT(cuGraphInstantiate_v2)
ABSENT(cuGraphInstantiateWithFlags) ABSENT(cuGraphLaunch) ABSENT(cuStreamBeginCapture_v2) ABSENT(cuStreamEndCapture)
ABSENT(cuLinkAddData_v2) ABSENT(cuLinkAddFile_v2) ABSENT(cuLinkComplete) ABSENT(cuLinkCreate_v2) ABSENT(cuLinkDestroy)
ABSENT(cuMemAdvise) ABSENT(cuMemAllocManaged) ABSENT(cuMemAllocPitch_v2) ABSENT(cuMemPrefetchAsync) ABSENT(cuPointerSetAttribute)
ABSENT(cuMemcpy2D_v2) ABSENT(cuMemcpy2DAsync_v2) ABSENT(cuMemcpy2DUnaligned_v2) ABSENT(cuMemcpy3D_v2) ABSENT(cuMemcpy3DAsync_v2)
ABSENT(cuMemcpy3DPeer) ABSENT(cuMemcpy3DPeerAsync) ABSENT(cuMemcpyPeer) ABSENT(cuMemcpyPeerAsync)
ABSENT(cuMemcpyAtoA_v2) ABSENT(cuMemcpyAtoD_v2) ABSENT(cuMemcpyAtoH_v2) ABSENT(cuMemcpyAtoHAsync_v2) ABSENT(cuMemcpyDtoA_v2)
ABSENT(cuMemcpyHtoA_v2) ABSENT(cuMemcpyHtoAAsync_v2)
ABSENT(cuMemsetD2D8_v2) ABSENT(cuMemsetD2D16_v2) ABSENT(cuMemsetD2D32_v2) ABSENT(cuMemsetD2D8Async) ABSENT(cuMemsetD2D16Async)
ABSENT(cuMemsetD2D32Async)
ABSENT(cuModuleGetSurfRef) ABSENT(cuModuleGetTexRef) ABSENT(cuModuleLoadFatBinary)
ABSENT(cuStreamAttachMemAsync) ABSENT(cuStreamWaitValue32_v2) ABSENT(cuStreamWriteValue32_v2)
ABSENT(cuSurfRefGetArray) ABSENT(cuSurfRefSetArray) ABSENT(cuTexRefGetAddress_v2) ABSENT(cuTexRefGetAddressMode) ABSENT(cuTexRefGetArray)
ABSENT(cuTexRefGetBorderColor) ABSENT(cuTexRefGetFilterMode) ABSENT(cuTexRefGetFlags) ABSENT(cuTexRefGetFormat)
ABSENT(cuTexRefGetMaxAnisotropy) ABSENT(cuTexRefSetAddress_v2) ABSENT(cuTexRefSetAddress2D_v3) ABSENT(cuTexRefSetAddressMode)
ABSENT(cuTexRefSetArray) ABSENT(cuTexRefSetBorderColor) ABSENT(cuTexRefSetFilterMode) ABSENT(cuTexRefSetFlags) ABSENT(cuTexRefSetFormat)
ABSENT(cuTexRefSetMaxAnisotropy) ABSENT(cuTexRefSetMipmapFilterMode) ABSENT(cuTexRefSetMipmapLevelBias) ABSENT(cuTexRefSetMipmapLevelClamp)
