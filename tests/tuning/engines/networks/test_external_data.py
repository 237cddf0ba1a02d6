"""ONNX files whose tensors are in other files, which may be any file of the machine that reads them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto, helper

from tests import models
from tuning.engines.wire.errors import Refused

pytestmark = pytest.mark.tvm


def secret() -> TensorProto:
    """A tensor that is read from `var/secret_key`."""
    tensor = TensorProto(name="secret", data_type=TensorProto.UINT8, dims=[50], data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value="var/secret_key")
    return tensor


def constant() -> NodeProto:
    return helper.make_node("Constant", [], ["secret"], value=secret())


def in_an_initializer(model: ModelProto) -> None:
    model.graph.initializer.append(secret())


def in_an_attribute(model: ModelProto) -> None:
    model.graph.node.append(constant())


def in_a_list_of_tensors(model: ModelProto) -> None:
    model.graph.node.add(op_type="Relu").attribute.add(name="all", type=AttributeProto.TENSORS, tensors=[secret()])


def in_a_sparse_initializer(model: ModelProto) -> None:
    model.graph.sparse_initializer.add(values=secret(), dims=[50])


def in_the_indices_of_a_sparse_attribute(model: ModelProto) -> None:
    model.graph.node.add(op_type="Constant").attribute.add(name="sparse_value").sparse_tensor.indices.CopyFrom(secret())


def in_a_branch(model: ModelProto) -> None:
    model.graph.node.add(op_type="If").attribute.add(name="then_branch", g=GraphProto(node=[constant()]))


def in_a_list_of_graphs(model: ModelProto) -> None:
    model.graph.node.add(op_type="If").attribute.add(name="all", graphs=[GraphProto(initializer=[secret()])])


def in_a_function(model: ModelProto) -> None:
    model.functions.append(FunctionProto(name="f", domain="mine", output=["secret"], node=[constant()]))


def in_a_functions_default(model: ModelProto) -> None:
    function = FunctionProto(name="f", domain="mine")
    function.attribute_proto.add(name="value", t=secret())
    model.functions.append(function)


def in_a_branch_of_a_function(model: ModelProto) -> None:
    branch = helper.make_node("If", ["x"], ["y"], then_branch=GraphProto(name="g", node=[constant()]))
    model.functions.append(FunctionProto(name="f", domain="mine", node=[branch]))


def in_the_training_part(model: ModelProto) -> None:
    model.training_info.add().initialization.initializer.append(secret())


@pytest.mark.parametrize(
    "hide",
    [
        in_an_initializer,
        in_an_attribute,
        in_a_list_of_tensors,
        in_a_sparse_initializer,
        in_the_indices_of_a_sparse_attribute,
        in_a_branch,
        in_a_list_of_graphs,
        in_a_function,
        in_a_functions_default,
        in_a_branch_of_a_function,
        in_the_training_part,
    ],
)
def test_tensors_of_other_files_are_refused(hide: Callable[[ModelProto], None]) -> None:
    from tuning.engines.networks.uploaded import onnx_files

    model = models.dense()
    hide(model)
    with pytest.raises(Refused, match=r"in other files \(var/secret_key\)"):
        onnx_files.read(model.SerializeToString(), {})


def test_a_file_without_a_name_is_refused() -> None:
    from tuning.engines.networks.uploaded import onnx_files

    model = models.dense()
    model.graph.initializer.append(secret())
    del model.graph.initializer[-1].external_data[:]
    with pytest.raises(Refused, match="which it doesn't name: secret"):
        onnx_files.read(model.SerializeToString(), {})
