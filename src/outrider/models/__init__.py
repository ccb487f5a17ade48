"""The Qwen2-VL runtime: weights, tokenizer and frames behind `core.ports.LanguageModel`.

One code path serves the small shipped pair and Qwen2-VL-2B/7B: checkpoints are read with transformers, then
run by a forward of our own over a static KV cache.
"""

from outrider.models.card import ModelCard, read_card
from outrider.models.constrained import ConstrainedModel, constrain
from outrider.models.loading import check_model, load_exact_model, load_graph_model, load_model
from outrider.models.reference import ReferenceGenerator
from outrider.models.session import QwenModel, QwenSession
from outrider.models.tokenizer import QwenTokenizer, load_tokenizer

__all__ = [
    "ConstrainedModel",
    "ModelCard",
    "QwenModel",
    "QwenSession",
    "QwenTokenizer",
    "ReferenceGenerator",
    "check_model",
    "constrain",
    "load_exact_model",
    "load_graph_model",
    "load_model",
    "load_tokenizer",
    "read_card",
]
