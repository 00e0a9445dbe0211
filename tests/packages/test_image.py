"""The image of contrib/container/Dockerfile without a container engine: the commands of its last stage run in a bare root, in their
order, and then the program as the user and with the environment of the image. What an engine adds (layers, volumes, networks, its
filter of system calls) is not tested. The packages are those of build-deb/, which the first stage builds by the same command."""

import json
import re
import shlex

from dockerfile import last_stage

SETTINGS = {name: rest for name, rest in last_stage() if name not in ("FROM", "RUN", "COPY")}


def test_the_program_runs_as_the_user_of_the_image_and_reports_its_health(image):
    user, group = SETTINGS["USER"].split(":")
    words = {name: shlex.join(json.loads(SETTINGS[name])) for name in ("ENTRYPOINT", "CMD")}
    health = shlex.join(json.loads(SETTINGS["HEALTHCHECK"].partition("CMD ")[2]))
    out = image.run(f"""
        as="setpriv --reuid {user} --regid {group} --clear-groups env -i PATH=$PATH {SETTINGS['ENV']}"
        status=0; $as {health} || status=$?
        echo "before: $status"
        $as {words['ENTRYPOINT']} {words['CMD']} >/tmp/node.log 2>&1 &
        node=$!
        for i in $(seq 300); do $as {health} >/dev/null 2>&1 && break; sleep 0.1; done
        $as {health} || {{ cat /tmp/node.log; exit 1; }}
        stat -c 'owner: %u:%g' {SETTINGS['VOLUME']}/* | sort -u
        kill -{SETTINGS['STOPSIGNAL'].removeprefix('SIG')} $node
        wait $node
        echo "stopped: $?"
    """)
    assert "before: 69" in out and "stopped: 0" in out, out
    assert re.findall(r"^owner: (.*)$", out, re.MULTILINE) == [f"{user}:{group}"], out


def test_the_image_has_the_libraries_of_the_sinks_and_no_build_tools(image):
    out = image.run("ldconfig -p | grep -oE 'librdkafka.so.1|libcurl.so.4' | sort -u; ls /tmp; command -v cc make || echo no tools")
    assert out.split("\n")[:2] == ["libcurl.so.4", "librdkafka.so.1"] and out.strip().endswith("no tools") and ".deb" not in out, out
