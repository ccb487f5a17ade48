# SPDX-License-Identifier: Apache-2.0
"""Draft models as static graphs: fixed shapes, blocks of layers, one graph in memory at a time.

After Chen et al., "sd.npu" (section 4.2). Runs on onnxruntime, whose execution providers reach NPUs and GPUs.
"""
