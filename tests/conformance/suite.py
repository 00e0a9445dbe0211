"""Runs scenarios with all clients: several at a time where they do not disturb each other."""

import threading
import time
import traceback
from concurrent.futures import ThreadPoolExecutor

from adapters import Failed, Missing
from clusters import ScenarioCluster
from scenario_run import ScenarioRun

AT_A_TIME = 3  # scenarios that do not disturb their cluster
LANES = 2  # clusters for those that do


class Result:
    """Of one scenario with one client. `text`: the missing features, why the client is missing, or what failed."""

    def __init__(self, state, text="", seconds=0.0):
        self.state = state
        self.text = text
        self.seconds = seconds


class Together:
    """Steps that change the cluster wait for all clients of the scenario. The thread that owns the cluster makes the change:
    nodes die with the thread that started them."""

    def __init__(self, count):
        self._count = count
        self._here = 0
        self._turn = 0
        self._step = None
        self._failed = None
        self._moved = threading.Condition()

    def meet(self, step):
        """Of a client's thread: returns when the change was made."""
        with self._moved:
            self._step = step
            self._here += 1
            turn = self._turn
            self._moved.notify_all()
            while self._turn == turn:
                self._moved.wait()
            if self._failed is not None:
                raise Failed(f"the cluster: {self._failed}")

    def leave(self):
        """This client has ended, so nobody waits for it."""
        with self._moved:
            self._count -= 1
            self._moved.notify_all()

    def serve(self, change):
        """Of the owner: makes the changes until all have left."""
        with self._moved:
            while self._count > 0:
                if self._here < self._count:
                    self._moved.wait()
                    continue
                try:
                    change(self._step)
                except Exception:  # all of them fail
                    self._failed = traceback.format_exc()
                self._here = 0
                self._turn += 1
                self._moved.notify_all()


def run_scenario(scenario, languages, cluster, folder):
    """{name of the language: Result}. All of them at the same time."""
    results, runs = {}, []
    for language in languages:
        try:
            lacking = scenario.lacking(language.hello(folder)["features"])
        except (Missing, Failed) as problem:
            results[language.name] = Result("missing" if isinstance(problem, Missing) else "failed", str(problem))
            continue
        if lacking:
            results[language.name] = Result("unsupported", ", ".join(lacking))
        else:
            runs.append(language)
    together = Together(len(runs))

    def run(language):
        began = time.monotonic()
        try:
            ScenarioRun(scenario, language, cluster, together.meet, folder).execute()
            result = Result("passed")
        except Failed as failed:
            result = Result("failed", str(failed))
        except Exception:  # of the runner: it is no result of the client, and must be seen
            result = Result("failed", traceback.format_exc())
        finally:
            together.leave()
        result.seconds = time.monotonic() - began
        results[language.name] = result

    threads = [threading.Thread(target=run, args=[language]) for language in runs]
    for thread in threads:
        thread.start()
    together.serve(cluster.disturb)
    for thread in threads:
        thread.join()
    return results


class Suite:
    """`wanted`: pairs of a scenario and the languages to run it with."""

    def __init__(self, wanted, folder):
        self._wanted = wanted
        self._folder = folder
        self._clusters = []
        self._started = 0
        self._lock = threading.Lock()
        self.results = {}  # by the name of the scenario

    def run(self):
        """Clusters for those that disturb them, one for the others, and the same for each other setting."""
        groups = {}
        for number, (scenario, languages) in enumerate(self._wanted):
            lane = number % LANES if scenario.disturbs else 0
            groups.setdefault((scenario.nodes, scenario.secure, scenario.disturbs, lane), []).append((scenario, languages))
        try:
            with ThreadPoolExecutor(max(len(groups), 1)) as pool:
                done = [pool.submit(self._run_group, *item) for item in groups.items()]
            for future in done:
                future.result()
        finally:
            for cluster in self._clusters:
                cluster.end()
        return self.results

    def _start(self, settings):
        nodes, secure = settings[:2]
        with self._lock:
            self._started += 1
            folder = self._folder / f"cluster-{self._started}"
        cluster = ScenarioCluster(folder, nodes, secure)
        self._clusters.append(cluster)
        return cluster

    def _run_group(self, settings, members):
        cluster = self._start(settings)
        if not settings[2]:
            with ThreadPoolExecutor(AT_A_TIME) as pool:
                for future in [pool.submit(self._run_one, cluster, *member) for member in members]:
                    future.result()
            return
        for scenario, languages in members:
            self._run_one(cluster, scenario, languages)
            try:
                cluster.restore()
            except AssertionError as error:
                text = f"{error}: the cluster is not as before after this scenario:\n{cluster.logs()}"
                self.results[scenario.name] = {language.name: Result("failed", text) for language in languages}
                cluster.end()
                cluster = self._start(settings)

    def _run_one(self, cluster, scenario, languages):
        self.results[scenario.name] = run_scenario(scenario, languages, cluster, self._folder)
