"""Load on the service: its own share of the time, latency, a long run, and SIGTERM in the middle of it.

The service has one core and this process, which asks, the other; so what is measured is one core's worth.
`make test-load` runs it for ten minutes; `--seconds` and the names of parts make it shorter.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
import threading
import time
from datetime import date
from pathlib import Path

import numpy as np

import tightset as ts
from load_client import Connection, request_bytes, serving

SERVER_CORE, OWN_CORE = 0, 1
K, ROWS = 1000, 1024
KEPT = Path(".benchmarks/load.json")
NO_OP = request_bytes("GET", "/v2/health/live")


def predictor(folder, k, n=10_000):
    """Save a predictor of the default recipe; return its path and logits like those it was made from."""
    rng = np.random.default_rng(k)
    labels = rng.integers(k, size=n)
    logits = (2 * rng.normal(size=(n, k)) + 6 * np.eye(k)[labels]).astype(np.float32)
    path = Path(folder) / f"labels-{k}.json"
    ts.calibrate(logits, labels, alpha=0.1).save(path, score_table=True)
    return path, logits


def batch_request(logits):
    headers = {"Content_Type": "application/octet-stream", "Accept": "application/octet-stream"}
    shape = f"{logits.shape[0]},{logits.shape[1]}"
    return request_bytes("POST", "/v1/predict", logits.tobytes(), Tightset_Shape=shape, **headers)


def row_request(row):
    body = json.dumps({"rows": [[round(float(v), 4) for v in row]]}).encode()
    return request_bytes("POST", "/v1/predict", body, Content_Type="application/json")


def library_rate(path, logits, seconds):
    """Return rows a second of the library alone on the service's core, with one thread."""
    was = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {SERVER_CORE})
    try:
        model, batch = ts.load(path), logits[:ROWS].copy()
        calls, start = 0, time.perf_counter()
        while (spent := time.perf_counter() - start) < seconds:
            model.predict_set(batch, n_threads=1)
            calls += 1
    finally:
        os.sched_setaffinity(0, was)
    return calls * ROWS / spent


def closed_loop(port, requests, seconds, rows):
    """Ask on as many connections as there are requests, each after its answer; return rows a second."""
    counts, failures = [0] * len(requests), []
    warm, end = time.perf_counter() + min(1.0, seconds / 4), time.perf_counter() + seconds

    def ask(place, request):
        connection = Connection(port)
        while (now := time.perf_counter()) < end:
            status, _, body = connection.ask(request)
            if status != 200:
                failures.append((status, body[:200]))
                return
            counts[place] += now >= warm
        connection.close()

    _together([lambda i=i, r=r: ask(i, r) for i, r in enumerate(requests)])
    if failures:
        raise RuntimeError(f"refused: {failures[0]}")
    return sum(counts) * rows / (end - warm)


def capacity(port, logits, seconds):
    """Return rows a second in binary batches: the best of a few numbers of connections."""
    request = batch_request(logits[:ROWS])
    return max(closed_loop(port, [request] * n, seconds, ROWS) for n in (2, 3, 4))


def latencies(port, request, count):
    """Return seconds of single requests and of the no-op endpoint, in turn on one connection."""
    connection = Connection(port)
    found = {"no-op": [], "row": []}
    for i in range(count + 200):
        for name, one in (("no-op", NO_OP), ("row", request)):
            start = time.perf_counter()
            status, _, body = connection.ask(one)
            if status != 200:
                raise RuntimeError(f"{name}: {status} {body[:200]}")
            if i >= 200:
                found[name].append(time.perf_counter() - start)
    connection.close()
    return {name: np.array(values) for name, values in found.items()}


def soak(service, logits, rate, seconds):
    """Ask at a constant rate (requests a second), whatever the answers do; watch errors and memory.

    Latency counts from when a request was due, so that a stall shows in all that it delays.
    """
    request, lanes = batch_request(logits[:ROWS]), 4
    start, late, errors, resident = time.perf_counter() + 0.1, [], [], []
    done = threading.Event()

    def ask(lane):
        connection = Connection(service.port)
        i = lane
        while (due := start + i / rate) < start + seconds:
            time.sleep(max(0.0, due - time.perf_counter()))
            try:
                status, _, body = connection.ask(request)
            except OSError as error:
                errors.append(repr(error))
                connection = Connection(service.port)
            else:
                if status != 200:
                    errors.append(f"{status} {body[:100]!r}")
            late.append(time.perf_counter() - due)
            i += lanes
        connection.close()

    def watch():
        while not done.wait(1.0):
            resident.append(service.resident())

    watcher = threading.Thread(target=watch)
    watcher.start()
    _together([lambda lane=lane: ask(lane) for lane in range(lanes)])
    done.set()
    watcher.join()
    # The first tenth fills the memory of rows that wait for labels, and the allocator.
    steady = np.array(resident[len(resident) // 10 :] or [service.resident()])
    return {
        "seconds": seconds,
        "requests": len(late),
        "errors": errors,
        "p50": float(np.quantile(late, 0.5)),
        "p99": float(np.quantile(late, 0.99)),
        "resident_first": float(steady[: max(1, len(steady) // 10)].mean()),
        "resident_last": float(steady[-max(1, len(steady) // 10) :].mean()),
        "resident_most": float(steady.max()),
    }


def terminated(service, requests, seconds, *, reconnect):
    """Send SIGTERM under load; return how many requests were answered, and what became of the others.

    A request counts from the moment its connection was made. `reconnect` has clients come back with a new
    connection when told to leave the old one, until there is nobody to connect to.
    """
    answered, dropped, late_answers = [0] * len(requests), [], [0]
    told = threading.Event()

    def ask(place, request):
        while True:
            try:
                connection = Connection(service.port)
            except ConnectionRefusedError:
                return
            except OSError as error:
                dropped.append(f"connecting: {error!r}")
                return
            while True:
                try:
                    status, head, body = connection.ask(request)
                except OSError as error:
                    connection.close()
                    dropped.append(f"{error!r} after {answered[place]} answers")
                    return
                if status != 200:
                    dropped.append(f"{status} {body[:100]!r}")
                answered[place] += 1
                late_answers[0] += told.is_set()
                if "connection: close" in head:
                    connection.close()
                    break
            if not reconnect:
                return

    def tell():
        time.sleep(seconds)
        told.set()
        service.process.send_signal(signal.SIGTERM)

    _together([tell, *(lambda i=i, r=r: ask(i, r) for i, r in enumerate(requests))])
    code = service.process.wait(30)
    return {
        "answered": sum(answered),
        "answered_after_sigterm": late_answers[0],
        "dropped": dropped,
        "exit_code": code,
    }


def _together(works):
    threads = [threading.Thread(target=work) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def measured(parts, seconds):
    """Return the figures of the parts, one dict for each."""
    report = {}
    with tempfile.TemporaryDirectory() as folder:
        large, logits = predictor(folder, K)
        small, rows = predictor(folder, 100)
        if "capacity" in parts or "soak" in parts:
            with serving(large, core=SERVER_CORE) as service:
                # In turn, because machines are not equally fast all the time.
                alone, served = [], []
                for _ in range(3):
                    alone.append(library_rate(large, logits, 3.0))
                    served.append(capacity(service.port, logits, 3.0))
                report["capacity"] = {
                    "library_rows_per_second": float(np.median(alone)),
                    "service_rows_per_second": float(np.median(served)),
                    "share": float(np.median(np.divide(served, alone))),
                }
                if "soak" in parts:
                    rate = 0.5 * float(np.median(served)) / ROWS
                    report["soak"] = {"rate": rate, **soak(service, logits, rate, seconds)}
        if "latency" in parts:
            with serving(small, core=SERVER_CORE) as service:
                found = latencies(service.port, row_request(rows[0]), 20_000)
                report["latency"] = {
                    name: {f"p{p:g}": float(np.percentile(v, p)) for p in (50, 99, 99.9)}
                    for name, v in found.items()
                }
        if "sigterm" in parts:
            batch = batch_request(logits[:ROWS])
            batch = batch.replace(b"/v1/predict ", f"/v1/predict?model={large.stem} ".encode())
            for reconnect in (False, True):
                with serving(small, large, core=SERVER_CORE) as service:
                    found = terminated(
                        service, [row_request(rows[0])] * 6 + [batch] * 2, 3.0, reconnect=reconnect
                    )
                report["sigterm, new connections" if reconnect else "sigterm"] = found
    return report


def as_page(report):
    """Return the figures as Markdown."""
    lines = [
        "# Load on the service",
        "",
        "What `make test-load` wrote: one core asks, the other answers, both of one machine. Release build,",
        f"default recipe, feedback on. tightset {ts.__version__}, {date.today()}.",
        "",
        "| what | figure | held to |",
        "|---|---|---|",
    ]
    if found := report.get("capacity"):
        alone, served = found["library_rows_per_second"], found["service_rows_per_second"]
        what = f"rows/s in binary batches of {ROWS}, K = {K}"
        text = f"{served:,.0f}, {found['share']:.0%} of the library's {alone:,.0f} on one core"
        lines.append(f"| {what} | {text} | at least 50 % |")
    if found := report.get("latency"):
        more = found["row"]["p99"] - found["no-op"]["p99"]
        text = ", ".join(f"{p} {1e3 * v:.2f} ms" for p, v in found["row"].items())
        lines.append(f"| one row of JSON, K = 100 | {text} | |")
        text = ", ".join(f"{p} {1e3 * v:.2f} ms" for p, v in found["no-op"].items())
        lines.append(f"| the no-op, /v2/health/live | {text} | |")
        lines.append(f"| p99 of the row above that of the no-op | {1e3 * more:.2f} ms | at most 3 ms |")
    if found := report.get("soak"):
        grown = found["resident_last"] / found["resident_first"] - 1
        text = f"{found['requests']:,} requests of {ROWS} rows, {len(found['errors'])} errors"
        what = f"{found['seconds']:g} s at half of what was found before, {found['rate']:.0f} requests/s"
        lines.append(f"| {what} | {text} | no error |")
        text = f"p50 {1e3 * found['p50']:.1f} ms, p99 {1e3 * found['p99']:.1f} ms"
        lines.append(f"| latency in it, from when a request was due | {text} | |")
        last, most = found["resident_last"] / 2**20, found["resident_most"] / 2**20
        text = f"{last:.0f} MiB at the end, {grown:+.1%}, {most:.0f} MiB at most"
        lines.append(f"| resident memory in it | {text} | within 5 % |")
    for name in ("sigterm", "sigterm, new connections"):
        if found := report.get(name):
            text = f"{found['answered']:,} answered, {found['answered_after_sigterm']} of them after it"
            lines.append(f"| {name} | {text}, {len(found['dropped'])} dropped | none dropped |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parts = ("capacity", "latency", "soak", "sigterm")
    parser.add_argument("parts", nargs="*", help=f"which of {', '.join(parts)}; all by default")
    parser.add_argument("--seconds", type=float, default=600.0, help="length of the long run")
    parser.add_argument("--write", help="a Markdown file for the figures")
    given = parser.parse_args()
    if unknown := set(given.parts) - set(parts):
        parser.error(f"there is no part {', '.join(unknown)}")
    if len(os.sched_getaffinity(0)) < 2:
        sys.exit("load needs two cores: one asks, one answers")
    os.sched_setaffinity(0, {OWN_CORE})
    report = measured(given.parts or parts, given.seconds)
    sys.stdout.write(json.dumps(report, indent=2) + "\n")
    if given.write:
        # Parts that were left out keep the figures that they have.
        KEPT.parent.mkdir(exist_ok=True)
        report = {**(json.loads(KEPT.read_text()) if KEPT.exists() else {}), **report}
        KEPT.write_text(json.dumps(report))
        Path(given.write).write_text(as_page(report))
    sys.stdout.write(as_page(report))


if __name__ == "__main__":
    main()
