"""The expressions of the family's own notes that must be accepted as they stand, and the pieces tests make
texts of."""

from __future__ import annotations

MODEL_LOADING = """\
IoCV0[ModelLoadder[(.onnx)Onnx2Tensorrt,(.trt)LoadTensorrtEngine], TensorrtInferTensor;
      CatSplit[S_v0[FixTensor,CatTensor],S_v0[ContiguousTensor,TensorrtInferTensor,ProxyFromParam[post_processor]],SplitTensor]]"""

NODE_BY_IOC = (
    "IoCV0[InstancesRegister[BackgroundThread[BackendProxy]], Register[DI_v0[Batching, InstanceDispatcher]]; "
    "Forward[node.{node_name}]]"
)

NODE_BY_LIST = (
    "List[InstancesRegister[BackgroundThread[BackendProxy]], Register[Aspect[Batching, InstanceDispatcher]]]"
)

NODE_BY_REFLECT = (
    "IoCV0[InstancesRegister[BackgroundThread[Reflect[backend]]], "
    "Register[Block[Batching, InstanceDispatcher]]; Forward[node.{node_name}]]"
)

ASPECT_ALONE = "IoCV0[InstanceDispatcher,Aspect[Batching,InstanceDispatcher];Aspect]"

NODE_BY_SHARED_STATE = (
    "List[InstancesRegister[BackgroundThread[Reflect[backend]]],"
    "Register[IoCV0[SharedInstancesState,InstanceDispatcher,Batching;DI_v0[Batching,InstanceDispatcher]]]]"
)

TEXTS = {
    "model loading": MODEL_LOADING,
    "node by IoC": NODE_BY_IOC,
    "node by List": NODE_BY_LIST,
    "node by Reflect": NODE_BY_REFLECT,
    "Aspect alone": ASPECT_ALONE,
    "node by shared state": NODE_BY_SHARED_STATE,
}
