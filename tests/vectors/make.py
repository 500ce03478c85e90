"""Write the files that the Python and the Rust tests both read: `python tests/vectors/make.py`.

``predictions.json`` holds saved predictors of every recipe, rows, and the sets and p-values that Python gives
for them, to the bit; ``refused.json`` documents that every reader refuses, with what its error says. Files in
``tests/fixtures`` are written only if they are missing: those of a released format never change.
"""

from __future__ import annotations

import copy
import json
import struct
import warnings
from pathlib import Path

import numpy as np

import tightset as ts
from tightset.document import to_document
from tightset.document.canonical import digest
from tightset.recipes import as_recipe, recipe_names

HERE = Path(__file__).parent
FIXTURES = HERE.parent / "fixtures" / "v1"
SMALL = ts.Recipe(["aps", "thr"], [None, "entropy"], [0.0, 1.0, float("inf")], "modsel")


def batch(rng, n, k, dtype=np.float64):
    labels = rng.integers(k, size=n)
    logits = 2.0 * rng.normal(size=(n, k)) + 3.0 * np.eye(k)[labels]
    return logits.astype(dtype), labels


def compact(predictor, *, score_table=False):
    document = to_document(predictor, score_table=score_table)
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False)


def case(name, predictor, rows, *, row_ids=None, groups=None, score_table=False):
    dtype = rows.dtype.newbyteorder(">")
    sets = predictor.predict_set(rows, row_ids=row_ids, groups=groups)
    not_empty = predictor.predict_set(rows, row_ids=row_ids, groups=groups, allow_empty=False)
    p = predictor.predict_p(rows, row_ids=row_ids, groups=groups) if score_table else None
    return {
        "name": name,
        "document": compact(predictor, score_table=score_table),
        "dtype": rows.dtype.name,
        "rows": [row.astype(dtype).tobytes().hex() for row in rows],
        "row_ids": None if row_ids is None else row_ids.tolist(),
        "groups": None if groups is None else np.asarray(groups).tolist(),
        "sets": [labels.tolist() for labels in sets],
        "sets_not_empty": [labels.tolist() for labels in not_empty],
        "p_values": None if p is None else [row.astype(">f8").tobytes().hex() for row in p],
    }


def predictions():
    rng = np.random.default_rng(7)
    cases = []
    for recipe in recipe_names:
        for dtype, alpha in ((np.float32, 0.2), (np.float64, 0.4), (np.float32, 0.01)):
            # Many rows leave few candidates in use, few rows make a short score table.
            is_selected = as_recipe(recipe).selection == "modsel" and alpha > 0.1
            if is_selected and dtype == np.float64:
                continue
            logits, labels = batch(rng, 800 if is_selected else 60, 5, dtype)
            new = batch(rng, 8, 5, dtype)[0]
            new[0, 1:3] = -np.inf
            new[1, :] = new[1, 0]
            predictor = ts.calibrate(logits, labels, alpha, recipe, seed=2**63 + 5)
            name = f"{recipe}, {np.dtype(dtype).name}, alpha {alpha}"
            cases.append(case(name, predictor, new, score_table=len(predictor.candidates) == 1))
    logits, labels = batch(rng, 60, 80, np.float32)
    new = batch(rng, 6, 80, np.float32)[0]
    for recipe in ("aps", "raps", "saps", "mixed", SMALL):
        predictor = ts.calibrate(logits, labels, 0.3, recipe)
        cases.append(case(f"80 labels, {recipe if isinstance(recipe, str) else 'small'}", predictor, new))
    ids = np.array([0, 2**64 - 1, 5], np.uint64)
    predictor = ts.calibrate(logits, labels, 0.3, SMALL, row_ids=np.arange(60))
    cases.append(case("row ids", predictor, new[:3], row_ids=ids))
    p = np.asarray(ts.softmax(logits))
    predictor = ts.calibrate(p, labels, 0.3, "aps", probabilities=True)
    cases.append(case("probabilities", predictor, np.asarray(ts.softmax(new)), score_table=True))
    logits, labels = batch(rng, 30, 3)
    predictor = ts.calibrate(logits, labels, 0.3, SMALL, seed=1)
    cases.append(case("several with their table", predictor, batch(rng, 8, 3)[0], score_table=True))
    logits[np.arange(30), labels] = -np.inf
    logits[:, 0] = np.where(labels == 0, -np.inf, logits[:, 0])
    predictor = ts.calibrate(logits, labels, 0.3, "thr")
    cases.append(case("impossible labels", predictor, batch(rng, 3, 3)[0], score_table=True))
    return cases + conditional(np.random.default_rng(19))


def conditional(rng):
    """Labels of very different frequency, so that some have too few rows."""
    cases = []
    k = 4
    labels = rng.choice(k, size=160, p=[0.4, 0.35, 0.22, 0.03])
    logits = (2.0 * rng.normal(size=(160, k)) + 2.5 * np.eye(k)[labels]).astype(np.float32)
    new = batch(rng, 8, k, np.float32)[0]
    new[0, 1] = -np.inf
    held_out = SMALL.with_selection("held-out")
    groups = np.where(labels == 3, "r", np.where(np.arange(160) % 2, "ä", "b"))
    of_new = np.array(["ä", "b", "r", "b", "ä", "r", "b", "b"])
    for scarce in ("all", "pooled"):
        for kind in ("label", "cluster", "rc3p"):
            for recipe in ("raps", held_out, *((SMALL,) if kind == "label" else ())):
                predictor = ts.calibrate(logits, labels, 0.2, recipe, condition=kind, scarce=scarce, seed=3)
                selection = predictor.recipe.selection
                cases.append(case(f"{kind}, {selection}, {scarce}", predictor, new, score_table=True))
        for recipe in ("raps", SMALL):
            predictor = ts.calibrate(logits, labels, 0.2, recipe, condition=groups, scarce=scarce)
            name = f"groups, {predictor.recipe.selection}, {scarce}"
            cases.append(case(name, predictor, new, groups=of_new, score_table=True))
    ids = np.arange(160)
    predictor = ts.calibrate(logits, labels, 0.2, SMALL, condition=labels - 2, scarce="pooled", row_ids=ids)
    numbers = np.array([-2, 0, 1, 7, -1, -2, 0, -9])
    cases.append(case("groups, row ids", predictor, new, groups=numbers, row_ids=np.arange(8, 16)))
    p = np.asarray(ts.softmax(logits))
    predictor = ts.calibrate(p, labels, 0.2, "aps", condition="label", probabilities=True)
    cases.append(case("label, probabilities", predictor, np.asarray(ts.softmax(new)), score_table=True))
    for kind in (None, "label"):
        predictor = ts.calibrate(logits, labels, 0.3, SMALL, condition=kind, guarantee="pac", delta=0.2)
        cases.append(case(f"pac, {kind}", predictor, new, score_table=True))
    return cases


def with_hash(document):
    document["sha256"] = digest(document)
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False)


def at(*path):
    """A change of one place: a function of the document and the new value."""

    def change(document, value):
        node = document
        for step in path[:-1]:
            node = node[step]
        if value is None and isinstance(path[-1], str):
            del node[path[-1]]
        else:
            node[path[-1]] = value

    return change


def number(value):
    return {"bits": struct.pack(">d", value).hex(), "value": value}


NAN, INF = "7ff8000000000000", {"bits": "7ff0000000000000", "value": "inf"}
ONE = ("recipe", "parts", 0)
CHANGES = [
    # (which document, place, new value with None for none, what the error says)
    ("one", ("format",), "other", "format is not"),
    ("one", ("format_version",), 2, "format_version is 2"),
    ("one", ("format_version",), "1", "format_version is"),
    ("one", ("generator",), "other", "its generator is"),
    ("one", ("tightset",), 3, "tightset must be a string, got 3"),
    ("one", ("alpha",), 0.1, "alpha must be an object, got 0.1"),
    ("one", ("alpha",), number(1.5), "alpha must be strictly between 0 and 1, got 1.5"),
    ("one", ("alpha",), number(0.25), "does not belong to alpha=0.25"),
    (
        "one",
        ("alpha", "value"),
        0.30000000000000004,
        "alpha has bits for 0.3 beside the value 0.30000000000000004",
    ),
    ("one", ("alpha", "value"), "0.3", "alpha has bits for 0.3 beside the value"),
    ("one", ("alpha", "bits"), NAN, "alpha must not contain NaN"),
    ("one", ("alpha", "bits"), "3FD3333333333333", "alpha must be numbers as 16 hexadecimal digits each"),
    ("one", ("alpha", "bits"), "3fd333333333333", "alpha must be numbers as 16 hexadecimal digits each"),
    ("one", ("alpha", "bits"), "", "alpha must be one number, got 0"),
    ("one", ("alpha", "more"), 1, "alpha has an unknown field 'more'"),
    ("one", ("n_labels",), 0, "n_labels must be at least 1"),
    ("one", ("n_labels",), 2**31, "n_labels must be"),
    ("one", ("n_labels",), 2.5, "n_labels must be an integer, got 2.5"),
    ("one", ("n_labels",), 3.0, "n_labels must be an integer, got 3.0"),
    ("one", ("n_labels",), True, "n_labels must be an integer, got"),
    ("one", ("n_calibration",), -4, "n_calibration must be at least"),
    ("one", ("rank",), 1, "rank 1 does not belong"),
    ("one", ("seed",), -1, "seed must be at least 0"),
    ("one", ("seed",), 2**64, "seed must be"),
    ("one", ("seed",), 10**30, "1000000000"),
    ("one", ("probabilities",), 1, "probabilities must be True or False, got 1"),
    ("one", ("uses_row_ids",), "no", "uses_row_ids must be True or False, got"),
    ("one", ("label_names",), ["a"], "label_names must hold 3 names, got 1"),
    ("one", ("label_names",), ["a", "b", 3], "label_names must be a string, got 3"),
    ("one", ("label_names",), [], "label_names must be a list that is not empty"),
    ("one", ("extra",), 1, "the document has an unknown field 'extra'"),
    ("one", ("seed",), None, "the document has no field 'seed'"),
    ("one", ("recipe",), [], "recipe must be an object, got a list"),
    ("one", ("recipe", "selection"), "best", "selection must be"),
    ("one", ("recipe", "parts"), [], "parts must be a list that is not empty"),
    ("one", (*ONE, "score"), "aps", "score must be a list that is not empty, got"),
    ("one", (*ONE, "score", 0), "aps", "score must be a string, got"),
    ("one", (*ONE, "score", 0, "name"), "best", "score must be one"),
    ("one", (*ONE, "score", 0, "penalty"), None, "score has no field 'penalty'"),
    ("one", (*ONE, "score", 0, "penalty"), number(-1.0), "penalty must be finite and at least 0, got -1"),
    ("one", (*ONE, "score", 0, "k_reg"), 2**32, "k_reg must be between 0 and 4294967295"),
    ("one", (*ONE, "score", 0, "weight"), number(1.0), "score has an unknown field 'weight'"),
    ("one", (*ONE, "reweight", 0), {"gamma": number(0.0), "power": number(-1.0)}, "gamma must be above 0"),
    ("one", (*ONE, "reweight", 0), {"gamma": number(0.0)}, "reweight has no field 'power'"),
    ("one", (*ONE, "temperature"), "best", "temperature must be a list that is not empty, got"),
    ("one", (*ONE, "temperature", 0), INF, "temperature must be positive and finite"),
    ("one", (*ONE, "temperature"), [number(1.0), number(2.0)], "selection must say how to choose among"),
    ("one", (*ONE, "temperature"), "auto", "selection must say how to choose among"),
    ("one", ("candidates",), [], "candidates must be a list that is not empty"),
    ("one", ("candidates", 0), 1, "a candidate must be an object, got 1"),
    ("one", ("candidates", 0, "temperature"), number(2.0), "is not one of the recipe"),
    ("one", ("candidates", 0, "score", "k_reg"), 3, "is not one of the recipe"),
    ("one", ("candidates", 0, "threshold"), number(-5.0), "threshold -5"),
    ("one", ("candidates", 0, "threshold"), INF, "threshold inf does not belong to rank"),
    ("one", ("candidates", 0, "lo"), number(0.0), "a candidate has no field 'pairs_at_lo'"),
    ("one", ("calibration_scores",), [], "calibration_scores must be a list that is not empty"),
    ("one", ("calibration_scores", 0), "zz", "calibration_scores must be numbers as 16 hexadecimal digits"),
    ("one", ("calibration_scores", 0), NAN * 30, "calibration_scores must not contain NaN"),
    ("one", ("calibration_scores", 0), "0" * 16, "calibration_scores must hold 30 numbers for each of 1"),
    ("one", ("calibration_scores", 0), ("3" + "0" * 15) + "0" * 16 * 29, "calibration_scores are not sorted"),
    ("infinite", ("candidates", 0, "threshold"), number(1.0), "threshold 1"),
    ("several", ("recipe", "selection"), "held-out", "candidates do not belong to selection="),
    ("several", ("candidates", 0, "between"), None, "a candidate has no field 'between'"),
    ("several", ("candidates", 0, "lo"), {"bits": NAN, "value": "nan"}, "lo must not contain NaN"),
    ("several", ("candidates", 0, "lo"), number(99.0), "are not sorted"),
    ("several", ("candidates", 0, "between"), "c" * 16, "are not sorted"),
    ("several", ("candidates", 0, "pairs_at_lo"), 91, "lo and pairs_at_lo do not belong to rank"),
    ("several", ("candidates", 0, "pairs_at_lo"), -1, "pairs_at_lo must be at least 0"),
    ("several", ("candidates", 0, "lo"), number(-99.0), "lo -99"),
    ("one", ("pac",), 1, "pac must be an object, got 1"),
    ("one", ("pac",), {"delta": number(0.0), "shares": 1}, "delta must be strictly between 0 and 1"),
    ("one", ("pac",), {"delta": number(0.1), "shares": 0}, "shares must be at least 1"),
    ("pac", ("rank",), 32, "rank 32 does not belong to alpha=0.3 and 30 rows"),
    ("pac", ("pac",), None, "does not belong to alpha=0.3"),
    ("label", ("candidates",), [], "the document has an unknown field 'candidates'"),
    ("label", ("calibration_scores",), [], "the document has an unknown field 'calibration_scores'"),
    ("label", ("condition",), [], "condition must be an object, got a list"),
    ("label", ("condition", "kind"), "labels", "kind must be one that is known"),
    ("label", ("condition", "kind"), 1, "kind must be a string, got 1"),
    ("label", ("condition", "kind"), "groups", "condition has no field 'groups'"),
    ("label", ("condition", "kind"), "rc3p", "condition has no field 'most_ranks'"),
    ("label", ("condition", "most_ranks"), [1, 1, 1], "condition has an unknown field 'most_ranks'"),
    ("label", ("condition", "scarce"), "none", "scarce must be one that is known"),
    ("label", ("condition", "pooled"), 0, "pooled must be a cell exactly when scarce is 'pooled'"),
    ("label", ("condition", "scarce"), "pooled", "pooled must be a cell exactly when scarce is 'pooled'"),
    ("label", ("condition", "cells"), [], "cells must be a list that is not empty"),
    ("label", ("condition", "cells", 0), 1, "a cell must be an object, got 1"),
    ("label", ("condition", "cells", 0, "n_calibration"), -1, "n_calibration must be at least 0"),
    ("label", ("condition", "cells", 0, "rank"), 1, "rank 1 does not belong to alpha=0.3"),
    ("label", ("condition", "cells", 1, "calibration_scores"), None, "must be in all cells or in none"),
    ("label", ("condition", "cells", 1, "calibration_scores", 0), "", "calibration_scores must hold"),
    ("label", ("condition", "cells", 0, "candidates", 0, "threshold"), number(-5.0), "threshold -5"),
    ("label", ("condition", "cell_of"), [0, 1], "cell_of must hold 3 integers, got 2"),
    ("label", ("condition", "cell_of", 2), 3, "cell_of must be"),
    ("label", ("condition", "cell_of", 2), "2", "cell_of must be an integer, got"),
    ("rc3p", ("condition", "most_ranks", 0), 0, "most_ranks must be at least 1"),
    ("rc3p", ("condition", "most_ranks", 0), 4, "most_ranks must be"),
    ("groups", ("condition", "groups"), ["a", 1], "groups must be all integers or all strings"),
    ("groups", ("condition", "groups"), [1.5, 2.5], "groups must be all integers or all strings"),
    ("groups", ("condition", "groups"), [True, False], "groups must be all integers or all strings"),
    ("groups", ("condition", "groups"), ["a", "a"], "groups must differ from each other"),
    ("groups", ("condition", "groups"), [1, 2**63], "groups must be"),
    ("groups", ("condition", "groups"), ["a", "b", "c"], "cell_of must hold 3 integers, got 2"),
    ("groups", ("condition", "pooled"), 9, "pooled must be"),
]


def refused(sources):
    one, several = sources["one"], sources["several"]
    cases = []
    for source, path, value, message in CHANGES:
        document = copy.deepcopy(sources[source])
        at(*path)(document, value)
        name = f"{source}: {'.'.join(map(str, path))} = {json.dumps(value)[:60]}"
        cases.append({"name": name, "text": with_hash(document), "message": message})
    many = copy.deepcopy(one)
    many["recipe"]["selection"] = "held-out"
    many["recipe"]["parts"][0]["temperature"] *= 129
    many["recipe"]["parts"][0]["score"] *= 128
    cases.append(
        {"name": "many candidates", "text": with_hash(many), "message": "more than 16384 candidates"}
    )
    twin = copy.deepcopy(one)
    twin["candidates"] *= 2
    twin["calibration_scores"] *= 2
    message = "2 candidates do not belong to selection="
    cases.append({"name": "several without selection", "text": with_hash(twin), "message": message})
    single = copy.deepcopy(several)
    single["candidates"] = single["candidates"][:1]
    single["calibration_scores"] = single["calibration_scores"][:1]
    message = "1 candidates do not belong to selection="
    cases.append({"name": "a bracket for one", "text": with_hash(single), "message": message})
    text = with_hash(copy.deepcopy(one))
    changed = "was changed after it was written"
    for name, broken, message in [
        ("another hash", text.replace(json.loads(text)["sha256"], "0" * 64), changed),
        ("another seed", text.replace('"seed":0', '"seed":1'), changed),
        ("another version", text.replace('"tightset":"', '"tightset":"9'), changed),
        ("upper case", text.replace(json.loads(text)["sha256"], json.loads(text)["sha256"].upper()), changed),
        ("a field twice", text.replace('"seed":0', '"seed":0,"seed":0'), "field"),
        ("a field twice, escaped", text.replace('"seed":0', '"seed":0,"s\\u0065ed":0'), "stands twice"),
        ("minus zero", text.replace('"seed":0', '"seed":-0'), ""),
        ("leading zero", text.replace('"seed":0', '"seed":00'), ""),
        ("not a number", text.replace('"seed":0', '"seed":NaN'), ""),
        ("cut short", text[:-1], ""),
        ("more after it", text + "x", ""),
        ("a byte order mark", "\ufeff" + text, ""),
        ("empty", "", ""),
        ("a list", "[]", "format is not"),
        ("null", "null", "format is not"),
        ("deep", "[" * 5000, ""),
        ("a lone surrogate", text.replace('"tightset":"', '"tightset":"\\ud800'), ""),
        ("a control character", text.replace('"tightset":"', '"tightset":"\n'), ""),
        ("an integer for a value", text.replace('"value":1.0', '"value":1'), "beside the value 1"),
    ]:
        assert broken != text, name
        cases.append({"name": name, "text": broken, "message": message})
    return cases


def main():
    warnings.simplefilter("ignore", ts.SmallCalibrationWarning)
    HERE.joinpath("predictions.json").write_text(json.dumps(predictions(), indent=0) + "\n")
    rng = np.random.default_rng(11)
    logits, labels = batch(rng, 30, 3)
    one = ts.calibrate(logits, labels, 0.3, "raps")
    infinite = ts.calibrate(logits, labels, 0.01, "raps")
    several = ts.calibrate(logits, labels, 0.3, SMALL)
    given = {"condition": labels % 2, "scarce": "pooled"}
    sources = {
        "one": one,
        "infinite": infinite,
        "several": several,
        "pac": ts.calibrate(logits, labels, 0.3, "raps", guarantee="pac", delta=0.3),
        "label": ts.calibrate(logits, labels, 0.3, "raps", condition="label"),
        "rc3p": ts.calibrate(logits, labels, 0.3, "raps", condition="rc3p"),
        "groups": ts.calibrate(logits, labels, 0.3, "raps", **given),
    }
    documents = {name: to_document(predictor, score_table=True) for name, predictor in sources.items()}
    HERE.joinpath("refused.json").write_text(json.dumps(refused(documents), indent=0) + "\n")
    logits, labels = batch(rng, 50, 4)
    fixtures = {
        "aps": ts.calibrate(logits, labels, 0.2, "aps"),
        "raps-with-names": one.with_label_names(["cat", 'd"o\\g\n', "鶴 é"]),
        "infinite": infinite,
        "several": several,
        "er-aps": ts.calibrate(logits, labels, 0.2, "er-aps", seed=2**64 - 1),
        "label-pac": ts.calibrate(logits, labels, 0.3, "aps", condition="label", guarantee="pac", delta=0.5),
        "groups": ts.calibrate(logits, labels, 0.3, SMALL, condition=np.array(["à", "b"])[labels % 2]),
    }
    FIXTURES.mkdir(parents=True, exist_ok=True)
    for name, predictor in fixtures.items():
        path = FIXTURES / f"{name}.json"
        if not path.exists():
            predictor.save(path, score_table=name in ("several", "raps-with-names"))


if __name__ == "__main__":
    main()
