"""Sets for the nodes of a graph: scores averaged over neighbours, then split conformal prediction.

DAPS (H. Zargarbashi, Antonelli & Bojchevski, ICML 2023) mixes a node's scores with the mean of its
neighbours'; SNAPS (Song et al., NeurIPS 2024) adds the mean over the nodes with the most similar features.
Both are transductive: all nodes' logits are at hand, and labels of some. The averages treat all nodes alike,
whichever have labels, so a node's scores do not depend on which nodes calibrate; coverage needs no more.
"""

from tightset.graphs.adjacency import neighbour_means, similarity_graph
from tightset.graphs.node_sets import NodeSets, daps, snaps

__all__ = ["NodeSets", "daps", "neighbour_means", "similarity_graph", "snaps"]
