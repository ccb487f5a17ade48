# SPDX-License-Identifier: Apache-2.0
"""Exports blocks of decoder layers as ONNX graphs of fixed shapes, with an explicit key/value cache.

A block of M rows and S slots takes `hidden` (M, H), `cos` and `sin` (M, 1, D), and for each layer `keys_i`,
`values_i` (kv, S, D). `past` (M, S) and `own` (M, M) are 0 where a row sees a slot, or one of the rows, and
very low elsewhere; rows may belong to several texts. `deep_i` (M, H) is added after a layer that takes a
picture's deep features. The block returns `out` (M, H) and each layer's `new_keys_i`, `new_values_i` (kv,
M, D), which the caller writes to its cache. It computes the same as `text_stack`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from outrider.core.errors import ModelError
from outrider.models.backbone.text_stack import LayerWeights, RmsNorm, TextShape
from outrider.models.quantization.matrices import DenseMatrix, ExactMatrix, JoinedMatrix, Matrix

OPSET, IR_VERSION = 21, 10
CONTRIB = "com.microsoft"
HIDDEN_SCORE = -1e9
_INT8_BLOCK = 256
_FLOAT32_ACCUMULATION = 1
"""The `accuracy_level` of MatMulNBits at which a row's product does not depend on other rows."""


class GraphBuilder:
    """Collects nodes and constants; every method that adds a node returns its output's name."""

    def __init__(self, packs: bool) -> None:
        """`packs`: write quantized weights as MatMulNBits, else as the standard's DequantizeLinear."""
        try:
            import onnx
        except ImportError:
            raise ModelError("static graphs are built with onnx: pip install 'outrider[graphs]'") from None
        self._onnx = onnx
        self._packs = packs
        self._nodes: list[Any] = []
        self._constants: list[Any] = []
        self._count = 0

    def node(self, kind: str, inputs: Sequence[str], **attributes: Any) -> str:
        """Add a node with one output."""
        return self.nodes(kind, inputs, 1, **attributes)[0]

    def nodes(self, kind: str, inputs: Sequence[str], num_outputs: int, **attributes: Any) -> list[str]:
        """Add a node; return the names of its `num_outputs` outputs."""
        names = [self._fresh(kind) for _ in range(num_outputs)]
        self._nodes.append(self._onnx.helper.make_node(kind, list(inputs), names, **attributes))
        return names

    def constant(self, values: Any) -> str:
        """Add an array as a constant; return its name."""
        name = self._fresh("constant")
        self._constants.append(self._onnx.numpy_helper.from_array(np.ascontiguousarray(values), name))
        return name

    def tensor(self, weight: Tensor) -> str:
        """Add a weight as a float32 constant; return its name."""
        return self.constant(weight.float().cpu().numpy())

    def reshape(self, source: str, *sizes: int) -> str:
        """Add a reshape to the given sizes."""
        return self.node("Reshape", [source, self.constant(np.array(sizes, dtype=np.int64))])

    def split(self, source: str, axis: int, *sizes: int) -> list[str]:
        """Add a split along an axis; return the names of the parts."""
        lengths = self.constant(np.array(sizes, dtype=np.int64))
        return self.nodes("Split", [source, lengths], len(sizes), axis=axis)

    def product(self, rows: str, matrix: Matrix) -> str:
        """Add the product rows (M, in) @ matrix."""
        if isinstance(matrix, DenseMatrix):
            return self.node("MatMul", [rows, self.tensor(matrix.weight)])
        if isinstance(matrix, JoinedMatrix):
            return self.node("Concat", [self.product(rows, part) for part in matrix.parts], axis=1)
        if not isinstance(matrix, ExactMatrix):
            raise ModelError(
                "what torchao has quantized cannot be made static graphs: torchao checkpoints run eagerly, "
                "with runtime=eager (draft_runtime:=eager)"
            )
        if matrix.weight.order is not None:
            rows = self.node("Gather", [rows, self.constant(matrix.weight.order.numpy())], axis=1)
        return self._packed(rows, matrix) if self._packs else self._dequantized(rows, matrix)

    def norm(self, rows: str, norm: RmsNorm) -> str:
        """Add a norm of rows."""
        # In two steps: QNN lacks ReduceSumSquare, and would run a part of each layer on the CPU.
        squared = self.node("Mul", [rows, rows])
        squares = self.node("ReduceSum", [squared, self.constant(np.array([-1]))], keepdims=1)
        floored = self.node("Add", [squares, self.tensor(norm.floor**2)])
        scaled = self.node("Div", [rows, self.node("Sqrt", [floored])])
        return self.node("Mul", [scaled, self.tensor(norm.gain)])

    def save(
        self, path: Path, inputs: dict[str, Sequence[int]], outputs: dict[str, tuple[str, Sequence[int]]]
    ) -> None:
        """Write the graph, and its weights to a separate file that onnxruntime maps:
        loading then copies them once.

        `outputs`: by each output's name, its value and shape.
        """
        helper, floats = self._onnx.helper, self._onnx.TensorProto.FLOAT
        for name, (source, _) in outputs.items():
            self._nodes.append(helper.make_node("Identity", [source], [name]))
        graph = helper.make_graph(
            self._nodes,
            "block",
            [helper.make_tensor_value_info(name, floats, list(shape)) for name, shape in inputs.items()],
            [
                helper.make_tensor_value_info(name, floats, list(shape))
                for name, (_, shape) in outputs.items()
            ],
            self._constants,
        )
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid(CONTRIB, 1)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)
        self._onnx.save_model(
            model, str(path), save_as_external_data=True, location=f"{path.name}.weights", size_threshold=1024
        )

    def _packed(self, rows: str, matrix: ExactMatrix) -> str:
        weight = matrix.weight
        outputs, inputs = weight.values.shape
        block = weight.group if weight.bits == 4 else _INT8_BLOCK
        num_blocks = -(-inputs // block)
        spare = num_blocks * block - inputs
        offset = 2 ** (weight.bits - 1)
        levels = np.pad(weight.values.numpy().astype(np.int16) + offset, ((0, 0), (0, spare)))
        levels = levels.astype(np.uint8).reshape(outputs, num_blocks, block)
        if weight.bits == 4:
            levels = levels[..., 0::2] | (levels[..., 1::2] << 4)
        scales = np.broadcast_to(weight.scales.numpy(), (outputs, num_blocks)).reshape(-1)
        given = [rows, self.constant(levels), self.constant(scales)]
        if weight.zeros is not None:
            zeros = np.pad(weight.zeros.numpy().astype(np.int16) + offset, ((0, 0), (0, num_blocks % 2)))
            given.append(self.constant((zeros[:, 0::2] | (zeros[:, 1::2] << 4)).astype(np.uint8).reshape(-1)))
        return self.node(
            "MatMulNBits",
            given,
            domain=CONTRIB,
            K=inputs,
            N=outputs,
            bits=weight.bits,
            block_size=block,
            accuracy_level=_FLOAT32_ACCUMULATION,
        )

    def _dequantized(self, rows: str, matrix: ExactMatrix) -> str:
        weight = matrix.weight
        values, scales = self.constant(weight.values.numpy().T), self.constant(weight.scales.numpy().T)
        if weight.bits == 8:
            scales = self.constant(weight.scales[:, 0].numpy())
            whole = self.node("DequantizeLinear", [values, scales], axis=1)
        else:
            zeros = [] if weight.zeros is None else [self.constant(weight.zeros.numpy().T)]
            whole = self.node("DequantizeLinear", [values, scales, *zeros], axis=0, block_size=weight.group)
        return self.node("MatMul", [rows, whole])

    def _fresh(self, stem: str) -> str:
        self._count += 1
        return f"{stem}_{self._count}"


def export_block(
    layers: Sequence[LayerWeights],
    shape: TextShape,
    num_rows: int,
    num_slots: int,
    num_deep: int,
    packs: bool,
    path: Path,
) -> None:
    """Write one block's graph for passes of `num_rows` rows;
    its first `num_deep` layers take deep features.
    """
    build = GraphBuilder(packs)
    hidden_size = layers[0].qkv.shape[0]
    cached, fresh = (shape.num_kv_heads, num_slots), (shape.num_kv_heads, num_rows)
    inputs: dict[str, Sequence[int]] = {
        "hidden": (num_rows, hidden_size),
        "cos": (num_rows, 1, shape.head_dim),
        "sin": (num_rows, 1, shape.head_dim),
        "past": (num_rows, num_slots),
        "own": (num_rows, num_rows),
    }
    outputs: dict[str, tuple[str, Sequence[int]]] = {}
    hidden, masks = "hidden", _masks(build, shape)
    for index, layer in enumerate(layers):
        for name in ("keys", "values"):
            inputs[f"{name}_{index}"] = (*cached, shape.head_dim)
        hidden, keys, values = _layer(build, layer, shape, num_rows, num_slots, hidden, masks, index)
        if index < num_deep:
            inputs[f"deep_{index}"] = (num_rows, hidden_size)
            hidden = build.node("Add", [hidden, f"deep_{index}"])
        outputs[f"new_keys_{index}"] = keys, (*fresh, shape.head_dim)
        outputs[f"new_values_{index}"] = values, (*fresh, shape.head_dim)
    outputs["out"] = hidden, (num_rows, hidden_size)
    build.save(path, inputs, outputs)


def export_head(final_norm: RmsNorm, head: Matrix, num_rows: int, packs: bool, path: Path) -> None:
    """Write the graph of the final norm and the LM head: `hidden` (M, H) to `logits` (M, V)."""
    build = GraphBuilder(packs)
    logits = build.product(build.norm("hidden", final_norm), head)
    hidden_size, vocab_size = head.shape
    build.save(path, {"hidden": (num_rows, hidden_size)}, {"logits": (logits, (num_rows, vocab_size))})


def _masks(build: GraphBuilder, shape: TextShape) -> tuple[str, str]:
    """Repeat `past` and `own` for the query heads that share keys: (group * M, S) and (group * M, M)."""
    repeats = build.constant(np.array([shape.num_heads // shape.num_kv_heads, 1], dtype=np.int64))
    past, own = (build.node("Tile", [name, repeats]) for name in ("past", "own"))
    return past, own


def _layer(
    build: GraphBuilder,
    layer: LayerWeights,
    shape: TextShape,
    num_rows: int,
    num_slots: int,
    hidden: str,
    masks: tuple[str, str],
    index: int,
) -> tuple[str, str, str]:
    """Add a layer; return its output, keys and values."""
    queries, keys, values = _project(build, layer, shape, num_rows, hidden)
    mixed = _attend(build, shape, num_rows, num_slots, queries, (keys, values), masks, index)
    hidden = build.node("Add", [hidden, build.product(mixed, layer.attention_out)])
    both = build.product(build.norm(hidden, layer.mlp_norm), layer.gate_up)
    width = layer.gate_up.shape[1] // 2
    gate, up = build.split(both, 1, width, width)
    gated = build.node("Mul", [build.node("Mul", [gate, build.node("Sigmoid", [gate])]), up])
    return build.node("Add", [hidden, build.product(gated, layer.down)]), keys, values


def _project(
    build: GraphBuilder, layer: LayerWeights, shape: TextShape, num_rows: int, hidden: str
) -> tuple[str, str, str]:
    """Return scaled queries (kv, group * M, D), keys and values (kv, M, D); queries and keys are rotated."""
    num_kv, head_dim, half = shape.num_kv_heads, shape.head_dim, shape.head_dim // 2
    projected = build.product(build.norm(hidden, layer.input_norm), layer.qkv)
    biased = build.node("Add", [projected, build.tensor(layer.qkv_bias)])
    heads = build.reshape(biased, num_rows, shape.num_heads + 2 * num_kv, head_dim)
    plain, values = build.split(heads, 1, shape.num_heads + num_kv, num_kv)
    if layer.head_norm is not None:
        plain = build.norm(plain, layer.head_norm)
    low, high = build.split(plain, 2, half, half)
    swapped = build.node("Mul", [build.node("Concat", [high, low], axis=2), "sin"])
    turned = build.node("Add", [build.node("Mul", [plain, "cos"]), swapped])
    queries, keys = build.split(turned, 1, shape.num_heads, num_kv)
    scaled = build.node("Mul", [queries, build.constant(np.float32(head_dim**-0.5))])
    grouped = build.reshape(scaled, num_rows, num_kv, -1, head_dim)
    ordered = build.node("Transpose", [grouped], perm=[1, 2, 0, 3])
    keys, values = (build.node("Transpose", [each], perm=[1, 0, 2]) for each in (keys, values))
    return build.reshape(ordered, num_kv, -1, head_dim), keys, values


def _attend(
    build: GraphBuilder,
    shape: TextShape,
    num_rows: int,
    num_slots: int,
    queries: str,
    fresh: tuple[str, str],
    masks: tuple[str, str],
    index: int,
) -> str:
    """Add attention over the cache and the rows themselves, (M, heads * D), without copying the cache."""
    (keys, values), slots = fresh, (f"keys_{index}", f"values_{index}")
    past = build.node("Add", [_scores(build, queries, slots[0]), masks[0]])
    own = build.node("Add", [_scores(build, queries, keys), masks[1]])
    weights = build.node("Softmax", [build.node("Concat", [past, own], axis=2)], axis=2)
    of_past, of_own = build.split(weights, 2, num_slots, num_rows)
    mixed = build.node(
        "Add", [build.node("MatMul", [of_past, slots[1]]), build.node("MatMul", [of_own, values])]
    )
    grouped = build.reshape(mixed, shape.num_kv_heads, -1, num_rows, shape.head_dim)
    return build.reshape(build.node("Transpose", [grouped], perm=[2, 0, 1, 3]), num_rows, -1)


def _scores(build: GraphBuilder, queries: str, keys: str) -> str:
    return build.node("MatMul", [queries, build.node("Transpose", [keys], perm=[0, 2, 1])])
