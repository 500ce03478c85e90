"""`tightset evaluate`."""

from __future__ import annotations

import sys

from tightset.cli import options
from tightset.cli.array_files import read_data, read_groups
from tightset.cli.input_files import check_one_is_standard
from tightset.cli.predict import predict_in_blocks
from tightset.cli.predictor_files import read_predictor
from tightset.metrics import report


def evaluate(
    predictor: options.Predictor,
    logits: options.Logits,
    labels: options.Labels = None,
    *,
    groups: options.Groups = None,
    threads: options.Threads = None,
    json: options.Json = False,
) -> None:
    """Measure a predictor's sets on rows with known labels, which it was not calibrated on.

    \b
    tightset evaluate predictor.json test-logits.npy test-labels.npy
    tightset evaluate predictor.json test.npz --json
    """
    check_one_is_standard({"PREDICTOR": predictor, "LOGITS": logits, "LABELS": labels, "--groups": groups})
    data = read_data(logits, labels)
    used = read_predictor(predictor)
    sets = predict_in_blocks(used, data.logits, groups=read_groups(groups), threads=threads)
    found = report(sets, data.labels, data.logits, predictor=used)
    if json:
        options.print_json(found.to_dict())
    else:
        sys.stdout.write(f"{found}\n")
