"""One library in one process: answers requests, one JSON document a line, so that units of different libraries can be
interleaved while everything stays compiled and warm.

    worker.py MODULE ROWS THREADS
"""

import importlib
import json
import os
import sys
import time
import traceback

# What libraries print belongs to the errors; answers keep the real output for themselves.
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)


def main():
    module, root, threads = sys.argv[1], sys.argv[2], int(sys.argv[3])
    sessions, seconds_a_round = {}, {}
    peers = problem = None

    def session(key):
        if key not in sessions:
            sessions[key] = peers.Session(problem, *key, threads)
            started = time.perf_counter()
            sessions[key].run(1)
            first = time.perf_counter() - started
            # The first round may compile and allocate; a slow one is not repeated for that.
            if first < 2:
                started = time.perf_counter()
                done = sessions[key].run(1)
                first = (time.perf_counter() - started) / done
            seconds_a_round[key] = first
        return sessions[key]

    def answer(request):
        nonlocal peers, problem
        what = request["do"]
        if what == "start":
            peers = importlib.import_module(module)
            if hasattr(peers, "Session"):
                from problem import Problem

                problem = Problem(root)
            return {}
        if what == "samplers":
            return {"rates": peers.measure(request["name"], request["seconds"])}
        if what == "account":
            epsilon, seconds = peers.epsilon(request["case"])
            return {"epsilon": epsilon, "seconds": seconds}
        key = (request["peer"], request["kind"], request["batch_size"])
        if what == "prepare":
            ready = session(key)
            return {"chosen": ready.chosen, "seconds": seconds_a_round[key]}
        if what == "check":
            import numpy as np
            from problem import check_weights, reference_sum

            size = request["batch_size"]
            errors = []
            for seed in [1, 2]:
                weights = check_weights(seed)
                expected = reference_sum(problem.features[:size], problem.labels[:size], weights)
                after = session(key).noiseless(weights).astype(np.float64)
                found = (weights.astype(np.float64) - after) * size
                errors.append(np.linalg.norm(found - expected) / np.linalg.norm(expected))
            return {"relative_error": max(errors)}
        if what == "measure":
            ready = session(key)
            # Caches and clocks of a process that has waited are cold; a tenth of the sample warms them.
            if seconds_a_round[key] < request["seconds"]:
                ready.run(max(1, round(request["seconds"] / 10 / seconds_a_round[key])))
            rounds = max(1, round(request["seconds"] / seconds_a_round[key]))
            started = time.perf_counter()
            done = ready.run(rounds)
            seconds = time.perf_counter() - started
            seconds_a_round[key] = seconds / done
            return {"seconds": seconds, "rounds": done}
        raise ValueError(f"unknown request {what}")

    for line in sys.stdin:
        try:
            reply = answer(json.loads(line))
        except Exception as error:  # Whatever goes wrong in a library is an answer, and the others go on.
            traceback.print_exc()
            reply = {"error": f"{type(error).__name__}: {error}".splitlines()[0][:300]}
        answers.write(json.dumps(reply) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
