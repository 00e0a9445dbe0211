"""docs/RECIPES.md and the files of contrib/ that it describes, as far as they run without the tool's own servers."""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess

import pytest
import yaml

from conftest import ROOT
from harness import PATIENCE, PROGRAM, skip_or_fail, wait_until

CONTRIB = ROOT / "contrib"
RECIPES = (ROOT / "docs/RECIPES.md").read_text(encoding="utf-8")


def script(path, text):
    path.write_text("#!/bin/sh\n" + text, encoding="utf-8")
    path.chmod(0o755)
    return path


def recorder(path):
    """A job that writes down its lock, its token, and who holds the lock while it runs."""
    return script(path, 'echo $$ >"$0.pid"\necho "$HOLDFAST_LOCK $HOLDFAST_TOKEN $*" >>"$0.ran"\n'
                        'holdfast show --json "$HOLDFAST_LOCK" >"$0.shown"\n')


def ran(path):
    record = path.with_name(path.name + ".ran")
    return [line.split(" ", 2) for line in record.read_text(encoding="utf-8").splitlines()] if record.exists() else []


def shown(path):
    return json.loads(path.with_name(path.name + ".shown").read_text(encoding="utf-8"))


def is_held(cluster, name):
    return cluster.nodes[1].show(name).json["held"]


def start(words, env):
    return subprocess.Popen(words, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def run(words, env, **options):
    return subprocess.run(words, env=env, text=True, capture_output=True, timeout=PATIENCE, check=False, **options)


# --- a job on one of several machines -------------------------------------------


def check_job_of_one_machine(command, cluster, surroundings, tmp_path):
    """`command`: as in the file, with the job as its last word."""
    job = recorder(tmp_path / "report")
    words = [PROGRAM, *command[1:-1], job]
    first = start(words, surroundings)
    wait_until(lambda: ran(job), "the job runs")
    # Another machine, and a late one: the job has ended, and --linger keeps the lock.
    for _ in range(2):
        done = run(words, surroundings)
        assert done.returncode == 0 and len(ran(job)) == 1, done
    pid = job.with_name("report.pid").read_text(encoding="utf-8").strip()
    wait_until(lambda: not os.path.exists(f"/proc/{pid}"), "the job ends")
    assert first.poll() is None and is_held(cluster, "jobs/report")
    # A signal that comes directly after the end of the job may still be for the job.
    wait_until(lambda: first.send_signal(signal.SIGTERM) or first.poll() is not None, "the linger ends")
    assert first.returncode == 0 and first.communicate() == ("", "")
    assert ran(job)[0][0] == "jobs/report" and shown(job)["held"] and not is_held(cluster, "jobs/report")
    # A failed job is not hidden.
    failing = start([*words[:-1], script(tmp_path / "fails", "trap '' TERM\ntouch $0.ran\nexit 5\n")], surroundings)
    wait_until((tmp_path / "fails.ran").exists, "the job runs")
    wait_until(lambda: failing.send_signal(signal.SIGTERM) or failing.poll() is not None, "the linger ends")
    assert failing.returncode == 5
    failing.communicate()


def exec_start(name):
    text = (CONTRIB / "systemd" / name).read_text(encoding="utf-8")
    line = re.search(r"^ExecStart=(.*)$", text, re.M)[0]
    assert line in RECIPES, "the document quotes it"
    return shlex.split(line.removeprefix("ExecStart="))


def test_systemd_timer(cluster, surroundings, tmp_path):
    check_job_of_one_machine(exec_start("holdfast-cron.service"), cluster, surroundings, tmp_path)


def test_kubernetes_cron_job(cluster, surroundings, tmp_path):
    document = yaml.safe_load((CONTRIB / "kubernetes/cronjob.yaml").read_text(encoding="utf-8"))
    assert (document["apiVersion"], document["kind"]) == ("batch/v1", "CronJob")
    pod = document["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    container = pod["containers"][0]
    assert pod["restartPolicy"] == "Never" and document["spec"]["concurrencyPolicy"] == "Forbid"
    quoted = re.search(r"^command: (.*)$", RECIPES, re.M)[1]
    assert yaml.safe_load(quoted) == container["command"]
    manual = (ROOT / "docs/man/holdfast.1").read_text(encoding="utf-8").replace("\\-", "-")
    mounts = {mount["mountPath"] for mount in container["volumeMounts"]}
    for row in container["env"]:
        assert row["name"] in manual, row
        assert not row["value"].startswith("/") or os.path.dirname(row["value"]) in mounts
    check_job_of_one_machine(container["command"], cluster, surroundings, tmp_path)


def test_systemd_service_is_handed_over(cluster, surroundings, tmp_path):
    command = exec_start("holdfast-leader.service")
    leader = script(tmp_path / "scheduler", 'echo "$HOLDFAST_LOCK $HOLDFAST_TOKEN $*" >>"$0.ran"\nexec sleep 1000\n')

    def machine(name):
        return start([PROGRAM, *[word.replace("%H", name) for word in command[1:-1]], leader], surroundings)

    first = machine("machine-1")
    wait_until(lambda: len(ran(leader)) == 1, "the first leads")
    second = machine("machine-2")
    wait_until(lambda: cluster.nodes[1].show("scheduler").json["queue_length"] == 1, "the second waits")
    first.send_signal(signal.SIGTERM)  # as KillMode=mixed does
    wait_until(lambda: len(ran(leader)) == 2, "the second leads")
    assert first.wait(PATIENCE) == 128 + signal.SIGTERM
    assert int(ran(leader)[1][1]) > int(ran(leader)[0][1]), "the epoch rises"
    election = cluster.nodes[1].request("GET", "/api/v1/elections/scheduler").json
    assert election["leader"]["value"] == "machine-2", election
    second.send_signal(signal.SIGTERM)
    second.wait(PATIENCE)
    first.communicate(), second.communicate()


@pytest.mark.parametrize("unit", ["holdfast-cron.service", "holdfast-cron.timer", "holdfast-leader.service"])
def test_systemd_accepts_the_units(tmp_path, unit):
    if shutil.which("systemd-analyze") is None:
        skip_or_fail("systemd-analyze is not installed: apt-get install systemd")
    for path in (CONTRIB / "systemd").iterdir():
        text = path.read_text(encoding="utf-8").replace("=/usr/bin/holdfast", f"={PROGRAM}")
        (tmp_path / path.name).write_text(text, encoding="utf-8")
    done = run(["systemd-analyze", "verify", "--man=no", tmp_path / unit], os.environ)
    assert done.returncode == 0 and unit not in done.stderr, done


# --- make -----------------------------------------------------------------------


@pytest.fixture(name="project")
def project_with_the_makefile(tmp_path):
    text = (CONTRIB / "make/Makefile").read_text(encoding="utf-8")
    for line in re.findall(r"```make\n(.*?)```", RECIPES, re.S)[0].splitlines():
        assert line in text.splitlines(), line
    (tmp_path / "Makefile").write_text(text, encoding="utf-8")
    return tmp_path


def test_make(cluster, surroundings, project):
    deploy, migrate = recorder(project / "deploy"), recorder(project / "migrate")
    done = run(["make", "deploy", "migrate", "ENV=prod"], surroundings, cwd=project)
    assert done.returncode == 0, done
    assert [(lock, rest) for lock, _, rest in ran(deploy)] == [("deploy/prod", "prod")]
    assert shown(deploy)["held"] and shown(migrate)["held"]
    # Both lines of the recipe had one lock.
    tokens = {token for _, token, _ in ran(migrate)}
    assert [rest for _, _, rest in ran(migrate)] == ["--dry-run prod", "prod"] and len(tokens) == 1
    assert not is_held(cluster, "deploy/prod") and not is_held(cluster, "migrate/prod")


def test_make_stops_at_the_first_error(cluster, surroundings, project):
    script(project / "migrate", 'echo "- - $*" >>"$0.ran"; exit 3\n')
    done = run(["make", "migrate"], surroundings, cwd=project)
    assert done.returncode == 2 and "Error 3" in done.stderr, done
    assert [rest for _, _, rest in ran(project / "migrate")] == ["--dry-run staging"]
    assert not is_held(cluster, "migrate/staging")


# --- Ansible --------------------------------------------------------------------


@pytest.fixture(name="run_playbook")
def playbook(surroundings, tmp_path):
    if shutil.which("ansible-playbook") is None:
        skip_or_fail("ansible-playbook is not installed: apt-get install ansible-core")
    (tmp_path / "hosts").write_text("[web]\nweb1\nweb2\n[all:vars]\nansible_connection=local\n"
                                    "ansible_python_interpreter=/usr/bin/python3\n", encoding="utf-8")

    def run_it(command, **more):
        extra = {"deploy_command": str(command), "lock_wait": "0s", **more}
        env = {**surroundings, "HOME": str(tmp_path), "ANSIBLE_LOCAL_TEMP": str(tmp_path / "local"),
               "ANSIBLE_REMOTE_TEMP": str(tmp_path / "remote"), "ANSIBLE_NOCOLOR": "1"}
        return run(["ansible-playbook", "-i", tmp_path / "hosts", "-e", json.dumps(extra), CONTRIB / "ansible/deploy.yml"], env)

    return run_it


def test_ansible(cluster, run_playbook, tmp_path):
    step = script(tmp_path / "step", 'echo "- - $*" >>"$0.ran"\nholdfast show --json deploy/web >"$0.shown"\n')
    done = run_playbook(step)
    assert done.returncode == 0, done.stdout + done.stderr
    tokens = [rest for _, _, rest in ran(step)]
    assert len(tokens) == 4 and len(set(tokens)) == 1 and int(tokens[0]) > 0, "two steps on two hosts"
    assert shown(step)["held"] and not is_held(cluster, "deploy/web")
    lease = re.search(r"lease-?[0-9a-f:.]{16}", done.stdout + done.stderr)
    assert lease is None, "the lease is not in the output"


def test_ansible_releases_after_a_failure_and_waits_for_no_one(cluster, run_playbook, tmp_path):
    step = script(tmp_path / "step", 'echo "- - $*" >>"$0.ran"; exit 4\n')
    assert run_playbook(step).returncode == 2
    assert 1 <= len(ran(step)) <= 2 and not is_held(cluster, "deploy/web"), "no second step"
    token = cluster.nodes[1].acquire("deploy/web", client="ana@laptop").json["fencing_token"]
    done = run_playbook(step)
    assert done.returncode == 2 and "held by ana@laptop" in done.stdout, done.stdout
    assert len(ran(step)) <= 2
    cluster.nodes[1].release("deploy/web", token, "ana@laptop")


# --- Terraform ------------------------------------------------------------------


def test_terraform_block():
    """tests/cluster/test_terraform.py has the requests."""
    text = (CONTRIB / "terraform/backend.tf").read_text(encoding="utf-8")
    settings = dict(re.findall(r'^ +(\w+) += "([^"]+)"', text, re.M))
    assert settings["lock_address"] == settings["unlock_address"] != settings["address"]
    assert "/integrations/terraform/" in settings["lock_address"] and settings["username"]
    quoted = re.search(r"```hcl\n(.*?)```", RECIPES, re.S)[1]
    assert dict(re.findall(r'^ +(\w+) += "([^"]+)"', quoted, re.M)) == settings


WRAPPED = re.findall(r"^```\n(holdfast lock .*)\n```$", RECIPES, re.M)


@pytest.mark.parametrize("line", WRAPPED, ids=[line.split(" -- ")[1].split()[0] for line in WRAPPED])
def test_a_wrapped_command_runs_with_the_lock(line, surroundings, tmp_path):
    """The command itself is replaced: Terraform is not in Debian, and the run of Ansible has a test of its own."""
    command = line.split(" -- ")[1].split()
    job = recorder(tmp_path / command[0])
    done = run(["sh", "-c", line], {**surroundings, "PATH": f"{tmp_path}:{surroundings['PATH']}"})
    assert done.returncode == 0, done.stderr
    ((name, token, arguments),) = ran(job)
    assert f" {name} -- " in line and int(token) > 0 and arguments.split() == command[1:]
    assert shown(job)["held"]


def test_each_wrapped_command_is_found():
    assert len(WRAPPED) == 2 and RECIPES.count("\n```\nholdfast") == 2
