"""Who a node's neighbours are, and averages over them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tightset._foreign_arrays import as_array
from tightset._inputs import ArrayLike, as_features, as_integer
from tightset.extras import missing

if TYPE_CHECKING:
    from scipy.sparse import csr_array

_BLOCK = 2**22
"""Similarities at a time: 32 MiB."""


def neighbour_means(values: ArrayLike, graph: Any) -> NDArray[np.float64]:
    """Return the weighted mean of each node's neighbours, or the node's own values where it has none.

    Parameters
    ----------
    values
        Shape (n, K).
    graph
        As in `daps`.

    Examples
    --------
    >>> import numpy as np
    >>> import tightset as ts
    >>> ts.graphs.neighbour_means([[0.0], [2.0], [4.0], [7.0]], [[0, 1, 1], [1, 0, 2]]).ravel()
    array([2., 2., 4., 7.])
    """
    array = as_array(values, "values")
    if array.ndim != 2 or array.dtype.kind not in "fiu":
        message = f"values must be real numbers of shape (n, K), got {array.dtype} of {array.shape}"
        raise ValueError(message)
    return means_over(array.astype(np.float64, copy=False), as_adjacency(graph, len(array)))


def similarity_graph(features: ArrayLike, k: int = 20) -> csr_array:
    """Return the k most similar other nodes of each, weighted by cosine similarity, as a sparse array (n, n).

    Similarities that are not positive are left out, and a row of zeros is similar to none. Of equal
    similarities around the k-th, which are kept is arbitrary. Costs O(n^2 d), in blocks.

    Examples
    --------
    >>> import tightset as ts
    >>> ts.graphs.similarity_graph([[1.0, 0.0], [3.0, 4.0], [0.0, 2.0]], k=1).toarray()
    array([[0. , 0.6, 0. ],
           [0. , 0. , 0.8],
           [0. , 0.8, 0. ]])
    """
    sparse = _sparse()
    array = as_array(features, "features")
    rows = as_features(array, len(array) if array.ndim else 0)
    n = len(rows)
    most = as_integer(k, "k", 1, max(n - 1, 1))
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    units = np.divide(rows, lengths, out=np.zeros_like(rows), where=lengths > 0.0)
    size = max(1, _BLOCK // max(n, 1))
    weights, columns = np.zeros((n, most)), np.zeros((n, most), np.int64)
    for start in range(0, n if n > 1 else 0, size):
        part = slice(start, min(start + size, n))
        similar = units[part] @ units.T
        here = np.arange(part.start, part.stop)
        similar[here - start, here] = -np.inf
        nearest = np.argpartition(similar, n - most, axis=1)[:, n - most :]
        columns[part] = nearest
        weights[part] = np.take_along_axis(similar, nearest, axis=1)
    kept = weights > 0.0
    indptr = np.concatenate([[0], np.cumsum(kept.sum(axis=1))])
    found = sparse.csr_array((weights[kept], columns[kept], indptr), shape=(n, n))
    found.sort_indices()
    return found


def as_adjacency(graph: Any, n_nodes: int, name: str = "graph") -> csr_array:
    """Return the weights of each node's neighbours, shape (n, n), from any form that `daps` takes."""
    sparse = _sparse()
    if is_sparse(graph):
        if graph.shape != (n_nodes, n_nodes):
            message = f"{name} must have shape ({n_nodes}, {n_nodes}), a row for each node, got {graph.shape}"
            raise ValueError(message)
        if graph.dtype.kind not in "fiub":
            message = f"{name} must have real weights, got dtype {graph.dtype}"
            raise TypeError(message)
        found = sparse.csr_array(graph, dtype=np.float64, copy=True)
    else:
        edges = as_array(graph, name)
        if edges.ndim != 2 or len(edges) != 2:
            message = f"{name} must be a sparse array or edges of shape (2, m), got shape {edges.shape}"
            raise ValueError(message)
        if edges.size and edges.dtype.kind not in "iu":
            message = f"{name} must be edges between numbered nodes, got dtype {edges.dtype}"
            raise TypeError(message)
        outside = (edges < 0) | (edges >= n_nodes)
        if outside.any():
            place = int(outside.any(axis=0).argmax())
            message = (
                f"{name} must join nodes from 0 to {n_nodes - 1}: edge {place} is {edges[:, place].tolist()}"
            )
            raise ValueError(message)
        ends = edges.astype(np.int64)
        found = sparse.csr_array((np.ones(ends.shape[1]), (ends[0], ends[1])), shape=(n_nodes, n_nodes))
    found.sum_duplicates()
    if not (found.data >= 0.0).all() or np.isinf(found.data).any():
        bad = found.data[~((found.data >= 0.0) & (found.data < np.inf))][0]
        message = f"{name} must have weights that are finite and not negative, found {bad}"
        raise ValueError(message)
    found.eliminate_zeros()
    return found


def means_over(values: NDArray[np.float64], graph: csr_array) -> NDArray[np.float64]:
    """Return what `neighbour_means` does, of inputs that have been checked."""
    weights = np.asarray(graph.sum(axis=1)).ravel()
    alone = weights == 0.0
    means: NDArray[np.float64] = graph @ values
    means /= np.where(alone, 1.0, weights)[:, np.newaxis]
    means[alone] = values[alone]
    return means


def is_sparse(value: Any) -> bool:
    """Return whether a value is a sparse array of SciPy."""
    return bool(_sparse().issparse(value))


def _sparse() -> Any:
    try:
        from scipy import sparse
    except ImportError as error:
        message = missing("tightset.graphs needs", "SciPy", "graphs")
        raise ImportError(message) from error
    return sparse
