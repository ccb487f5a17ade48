# SPDX-License-Identifier: Apache-2.0
"""Draft models as static graphs: fixed shapes, blocks of layers, one graph per block in memory at a time.

After Chen et al., "sd.npu" (section 4.2). Runs on onnxruntime, whose execution providers support NPUs and
GPUs.
"""
