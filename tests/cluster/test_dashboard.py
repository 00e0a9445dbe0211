"""The dashboard in a real browser (browser.py), and the headers that keep other pages away from it.

HOLDFAST_SCREENSHOTS=docs/img makes the pictures of the documents."""

import http.client
import os
import re
import threading

import pytest
from auth_support import bearer, secure_cluster
from browser import CONTRAST, Page, log_in, start_browser
from harness import PATIENCE, ROOT, allowed, wait_until
from secure import Authority

try:
    from selenium.webdriver.common.keys import Keys
except ImportError:
    Keys = None

FILES = ROOT / "src" / "server" / "dashboard"
TYPES = {".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8",
         ".svg": "image/svg+xml"}
PAGES = ("overview", "locks", "lock/deploy%2Fweb", "hot", "sessions", "members", "alerts", "audit", "events")
HELD = {"client_id": "deployer@ci", "ttl_ms": 600000}


@pytest.fixture(scope="module")
def browser():
    driver = start_browser()
    yield driver
    driver.quit()


@pytest.fixture
def page(browser):
    shown = Page(browser)
    shown.errors()  # those of before
    yield shown
    shown.close()


def no_errors(page, *expected):
    """Nothing failed in the page; `expected`: parts of messages that the test itself causes."""
    left = [text for text in page.errors() if not any(part in text for part in expected)]
    assert left == []


def acquire(node, name, client, **more):
    answer = node.acquire(name, client=client, ttl_ms=600000, **more)
    assert answer.json["acquired"], answer
    return answer.json["fencing_token"]


class Waiting:
    """Clients that wait for a lock, in this order, until their cluster ends."""

    def __init__(self, node, name, *clients):
        for i, client in enumerate(clients):
            threading.Thread(target=self.wait, args=(node, name, client), daemon=True).start()
            wait_until(lambda: node.show(name).json["queue_length"] == i + 1, f"{client} waits")

    @staticmethod
    def wait(node, name, client):
        node.try_request("POST", f"/api/v1/locks/{name}/acquire",
                         {"client_id": client, "ttl_ms": 600000, "wait_timeout_ms": 600000}, timeout=600)


def some_locks(cluster):
    """A lock with a past and a queue, whose holder waits for another one; and some others."""
    node = cluster.nodes[1]
    token = acquire(node, "deploy/web", "runner-0")
    assert node.release("deploy/web", token, client="runner-0").json["released"]
    acquire(node, "deploy/web", "runner-9")
    body = {"actor_id": "ann@ops", "reason": "stuck since the last deploy"}
    assert node.request("POST", "/api/v1/locks/deploy%2Fweb/force-unlock", body).status == 200
    acquire(node, "deploy/web", "deployer@ci", metadata={"job": 41})
    for i in range(12):
        acquire(node, f"billing/close/customer-{i:02}", f"worker-{i % 4}@app-{i % 3}")
    Waiting(node, "deploy/web", "runner-1", "runner-2", "runner-3")
    Waiting(node, "billing/close/customer-00", "deployer@ci")
    return cluster


def names_shown(page):
    return page.all_text(".space .cell.name .text")


# --- what is served ---------------------------------------------------------


def policy_of(cluster, scheme="http"):
    members = " ".join(f"{scheme}://{node.client}" for node in cluster)
    return ("default-src 'none'; script-src 'self'; style-src 'self'; "
            f"connect-src 'self' {members}; img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")


def test_each_file_is_in_the_program_with_strict_headers(make_cluster):
    cluster = make_cluster(3)
    node = cluster.followers()[0]
    total = 0
    for path in sorted(FILES.iterdir()):
        answer = node.request("GET", "/" if path.name == "index.html" else f"/dashboard/{path.name}")
        assert answer.status == 200, path
        assert answer.text == path.read_text(encoding="utf-8"), path
        total += len(answer.text)
        assert answer.headers["Content-Type"] == TYPES[path.suffix]
        assert answer.headers["content-security-policy"] == policy_of(cluster)
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["cache-control"] == "no-store"
        outside = set(re.findall(r"[a-z]+://[^\s\"'`$]+", answer.text)) - {"http://www.w3.org/2000/svg"}
        assert outside <= {"https?:\\/\\/"}, f"{path.name} names {outside}"
        assert not re.search(r"\b(localStorage|sessionStorage|indexedDB|document\.cookie|innerHTML|eval)\b", answer.text), path
    assert total < 150_000
    assert node.request("HEAD", "/").status == 200
    assert node.request("GET", "/dashboard/").status == 404
    assert node.request("POST", "/").status == 404


def raw(node, method, path, headers, body=None):
    connection = http.client.HTTPConnection(node.client_host, node.client_port, timeout=PATIENCE)
    connection.request(method, path, body=body, headers=headers)
    return connection, connection.getresponse()


def test_only_pages_of_members_may_use_the_api(make_cluster):
    cluster = make_cluster(3)
    node, other = cluster.nodes[1], cluster.nodes[2]
    member = f"http://{other.client}"
    unlock = "/api/v1/locks/x/force-unlock"
    for path in ("/api/v1/cluster", "/api/v1/locks", "/api/v1/no-such-route", "/api/v1/watch"):
        for origin in (member, "http://evil.example", f"https://{other.client}", "null", f"{member}0", None):
            connection, answer = raw(node, "GET", path, {"Origin": origin} if origin else {})
            assert answer.getheader("access-control-allow-origin") == (member if origin == member else None), (path, origin)
            assert (answer.getheader("vary") == "Origin") == (origin == member)
            assert answer.getheader("access-control-allow-credentials") is None
            connection.close()
    connection, answer = raw(node, "OPTIONS", unlock, {"Origin": member, "Access-Control-Request-Method": "POST"})
    assert answer.status == 204
    assert "POST" in answer.getheader("access-control-allow-methods")
    assert {"Authorization", "Content-Type", "Last-Event-ID"} <= set(answer.getheader("access-control-allow-headers").split(", "))
    connection.close()
    connection, answer = raw(node, "OPTIONS", unlock, {"Origin": "http://evil.example", "Access-Control-Request-Method": "POST"})
    assert answer.status == 403 and answer.getheader("access-control-allow-origin") is None
    connection.close()
    acquire(node, "x", "a")
    body = {"actor_id": "me", "reason": "test"}
    assert node.request("POST", unlock, body, headers={"Origin": "http://evil.example"}).code == "cross_origin"
    assert node.show("x").json["held"]
    assert node.request("POST", unlock, body, headers={"Origin": member}).status == 200


# --- in the browser -----------------------------------------------------------


def test_overview_is_live(make_cluster, page):
    cluster = make_cluster(3)
    page.open(cluster.nodes[1])
    page.wait_text("#health", "All nodes answer", f"Node {cluster.leader().id} leads")
    page.wait_for(lambda: len(page.all_text("#nodes tbody tr")) == 3, "a row for each node")
    page.wait_text("#nodes", "leader", *(node.client for node in cluster))
    page.wait_text("#live", f"live from {cluster.nodes[1].client}")
    for i in range(4):
        acquire(cluster.nodes[2], f"n-{i}", "a")
    page.wait_for(lambda: page.all_text(".tile .figure")[0] == "4", "four locks in use")
    page.wait_for(lambda: page.js("return document.querySelectorAll('.plot .line-0[d^=M]').length") >= 5, "plots have lines")
    victim = cluster.followers()[-1] if cluster.followers()[-1] is not cluster.nodes[1] else cluster.followers()[0]
    if victim is not cluster.nodes[1]:
        victim.kill()
        page.wait_text("#health", f"Node {victim.id} does not answer", "no other node may fail")
    no_errors(page, "net::ERR")


def test_locks_appear_are_searched_and_opened_by_keys(make_cluster, page):
    cluster = some_locks(make_cluster(3))
    node = cluster.nodes[1]
    page.open(node, "locks")
    page.wait_text("#lock-count", "13 locks")
    page.wait_text("#lock-stream", "live")
    token = acquire(cluster.nodes[2], "billing/new", "late@app-1")
    page.wait_for(lambda: "billing/new" in names_shown(page), "a new lock appears by itself")
    cluster.nodes[2].release("billing/new", token, client="late@app-1")
    page.wait_for(lambda: "billing/new" not in names_shown(page), "a released lock goes")

    page.press("/")
    assert page.focused() == "search"
    page.press("deploy/")
    page.wait_for(lambda: names_shown(page) == ["deploy/web"], "the search")
    page.wait_text(".space", "deployer@ci", "3")
    page.press(Keys.ARROW_DOWN)
    assert page.focused() == "grid"
    page.press(Keys.ENTER)
    page.wait_text("h1", "deploy/web")
    page.wait_text("#holders", "deployer@ci")
    page.press(Keys.ESCAPE)
    page.wait_for(lambda: names_shown(page) == ["deploy/web"], "back to the search")

    page.press("/")
    page.press("nothing/has/this")
    page.wait_text("main", "No such lock")
    page.type("#search", "billing/")
    page.wait_text("#lock-count", "12 locks")
    page.js("document.querySelector('#sort').value = 'queue'; document.querySelector('#sort').dispatchEvent(new Event('change'))")
    assert names_shown(page)[0] == "billing/close/customer-00"  # somebody waits for it
    page.js("document.querySelector('#sort').value = 'name'; document.querySelector('#sort').dispatchEvent(new Event('change'))")
    assert names_shown(page) == sorted(names_shown(page))
    page.find(".head button.sort").click()
    assert names_shown(page) == sorted(names_shown(page), reverse=True)
    assert page.find(".head .cell").get_attribute("aria-sort") == "descending"
    no_errors(page)


def test_keyboard_reaches_everything(make_cluster, page):
    cluster = make_cluster(1)
    page.open(cluster.nodes[1], "locks")
    page.wait_text("main", "No locks are in use")
    page.press(Keys.TAB)
    assert page.focused() == "skip"
    page.wait_for(lambda: page.js("return document.getElementById('skip').getBoundingClientRect().top") >= 0, "the skip link shows")
    page.press(Keys.ENTER)
    assert page.focused() == "main"
    seen = set()
    page.js("document.activeElement.blur()")
    for _ in range(20):
        page.press(Keys.TAB)
        if page.focused() in ("BODY", "HTML"):
            continue  # between the last element and the first
        seen.add(page.js("return document.activeElement.id || document.activeElement.textContent"))
        outline = page.js("const s = getComputedStyle(document.activeElement); return s.outlineStyle + s.outlineWidth")
        assert "solid" in outline, page.focused()
    assert {"search", "theme", "sort", "Overview", "Events"} <= seen
    assert page.js("return document.querySelector('[aria-current=page]').textContent") == "Locks"
    no_errors(page)


def test_a_lock_is_shown_with_its_queue_and_who_waits_for_whom(make_cluster, page):
    cluster = some_locks(make_cluster(3))
    node = cluster.nodes[1]
    page.open(node, "lock/deploy%2Fweb")
    page.wait_text("#holders", "deployer@ci", "Fencing token", '{"job":41}')
    page.wait_for(lambda: [row.split("\t")[1] for row in page.all_text("#queue tbody tr")] == ["runner-1", "runner-2", "runner-3"], "the queue")
    page.wait_text("#graph", "runner-1", "deploy/web", "deployer@ci", "billing/close/customer-00", "worker-0@app-0")
    left = page.all_text(".clocks .counting")[1]
    page.wait_for(lambda: page.all_text(".clocks .counting")[1] != left, "the deadline counts down")
    acquire(node, "other/a", "one")
    Waiting(node, "other/a", "two")
    acquire(node, "other/b", "two")
    Waiting(node, "other/b", "one")
    page.go("lock/other%2Fa")
    page.wait_text("#graph", "There is a circle")
    page.go("lock/never-used")
    page.wait_text("#holders", "Nobody holds this lock")
    no_errors(page)


def test_history_says_how_holds_ended(make_cluster, page):
    cluster = make_cluster(3)
    node = cluster.nodes[1]
    token = acquire(node, "deploy/web", "first")
    assert node.release("deploy/web", token, client="first").json["released"]
    acquire(node, "deploy/web", "second")
    body = {"actor_id": "olga", "reason": "it hangs", "now": True}
    assert node.request("POST", "/api/v1/locks/deploy/web/force-unlock", body).status == 200
    page.open(node, "lock/deploy%2Fweb")
    page.wait_text("#history", "first", "released", "second", "forced by olga: it hangs", str(token))
    acquire(node, "deploy/web", "third")
    page.wait_text("#history", "third", "holds it now")
    no_errors(page)


def fill_dialog(page, name, reason="it hangs", actor="ann@ops"):
    page.type("#actor", actor)
    page.type("#reason", reason)
    assert not page.find("#confirm").is_enabled()
    page.type("#typed", name + "x")
    assert not page.find("#confirm").is_enabled()
    page.type("#typed", name)
    assert page.find("#confirm").is_enabled()


def test_force_unlock_needs_reason_name_and_the_token_that_was_seen(make_cluster, page):
    cluster = make_cluster(3)
    node = cluster.nodes[1]
    token = acquire(node, "deploy/web", "first")
    page.open(node, "lock/deploy%2Fweb")
    page.click("button.force")
    fill_dialog(page, "deploy/web")
    assert node.release("deploy/web", token, client="first").json["released"]
    second = acquire(node, "deploy/web", "second")
    page.click("#confirm")
    page.wait_text("#problem", "changed hands")
    assert node.show("deploy/web").json["holders"][0]["fencing_token"] == second
    page.click("#cancel")
    page.wait_text("#holders", "second", str(second))

    page.click("button.force")
    fill_dialog(page, "deploy/web")
    page.click("#confirm")
    page.wait_text("#holders", "Nobody holds this lock")
    assert not node.show("deploy/web").json["held"]
    page.go("audit")
    page.wait_text("main", "force-unlock", "deploy/web", "ann@ops", "it hangs")

    acquire(node, "deploy/web", "third")
    page.go("lock/deploy%2Fweb")
    page.click("button.revoke")
    fill_dialog(page, "deploy/web", "maintenance")
    page.click("#confirm")
    page.wait_text("#holders", "revoked")
    assert node.show("deploy/web").json["holders"][0]["revoked_at"]
    no_errors(page, "409")


def test_page_goes_on_with_another_node(make_cluster, page):
    cluster = some_locks(make_cluster(3))
    leader = cluster.leader()
    page.open(leader, "locks")
    page.wait_text("#lock-count", "13 locks")
    page.wait_text("#lock-stream", "live")
    leader.kill()
    left = [node for node in cluster if node is not leader]
    page.wait_for(lambda: any(f"live from {node.client}" in page.text("#live") for node in left), "another node")
    page.wait_text("#lock-stream", "live")
    next_leader = cluster.leader(but=leader.id)
    next_leader.acquire_surely("after/failover")
    page.wait_for(lambda: "after/failover" in names_shown(page), "the event of another node")
    page.go("overview")
    page.wait_text("#health", f"Node {leader.id} does not answer")
    for node in left:
        node.kill()
    page.wait_text("#live", "no node answers")
    page.wait_text("#health", "No node answers")
    no_errors(page, "net::ERR")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_contrast_of_every_text_is_enough(make_cluster, page, theme):
    cluster = some_locks(make_cluster(3))
    page.scheme_of_system(theme)
    page.open(cluster.nodes[1])
    page.wait_text("#health", "All nodes answer")
    assert page.js("return getComputedStyle(document.documentElement).colorScheme") == theme
    for name in PAGES:
        page.go(name)
        page.wait_for(lambda: page.text("h1") and "Loading" not in page.text("main"), name)
        result = page.js(CONTRAST)
        assert result["seen"] > 15 and result["low"] == [], (name, result)
    page.go("lock/deploy%2Fweb")
    page.click("button.force")
    result = page.js(CONTRAST)
    assert result["low"] == [], result
    page.click("#cancel")
    no_errors(page)


def test_theme_can_be_chosen(make_cluster, page):
    cluster = make_cluster(1)
    page.scheme_of_system("dark")
    page.open(cluster.nodes[1])
    ground = "return getComputedStyle(document.body).backgroundColor"
    dark = page.js(ground)
    page.click("#theme")
    assert page.text("#theme") == "Theme: light"
    light = page.js(ground)
    assert light != dark
    page.click("#theme")
    assert page.text("#theme") == "Theme: dark" and page.js(ground) == dark
    page.scheme_of_system("light")
    assert page.js(ground) == dark
    page.click("#theme")
    assert page.js(ground) == light
    no_errors(page)


def test_phone_needs_no_horizontal_scrolling(make_cluster, page):
    cluster = some_locks(make_cluster(3))
    acquire(cluster.nodes[1], "a/very/long/name/" + "x" * 300, "client-" + "y" * 200)
    page.size(390, 844, mobile=True)
    page.open(cluster.nodes[1])
    page.wait_text("#health", "All nodes answer")
    for name in (*PAGES, "lock/" + "a%2Fvery%2Flong%2Fname%2F" + "x" * 300):
        page.go(name)
        page.wait_for(lambda: page.text("h1") and "Loading" not in page.text("main"), name)
        wide = page.js("return Array.from(document.querySelectorAll('body *')).filter((e) => e.getBoundingClientRect().right > 391 "
                       "&& !e.closest('.scroll, .tabs')).map((e) => e.tagName + '.' + e.getAttribute('class'))")
        assert page.js("return [document.documentElement.scrollWidth, innerWidth]") == [390, 390] and wide == [], (name, wide)
    page.go("lock/deploy%2Fweb")
    page.click("button.force")
    assert page.js("const r = document.getElementById('dialog').getBoundingClientRect(); return r.left >= 0 && r.right <= innerWidth")
    no_errors(page)


def many_locks(node, total):
    for start in range(0, total, 50):
        names = [f"many/{i:05}" for i in range(start, start + 50)]
        answer = node.request("POST", "/api/v1/multilock/acquire", {"names": names, "client_id": f"batch-{start}", "ttl_ms": 600000})
        assert answer.json["acquired"], answer


def test_ten_thousand_locks_scroll(make_cluster, page):
    cluster = make_cluster(1)
    many_locks(cluster.nodes[1], 10_000)
    page.open(cluster.nodes[1], "locks?sort=name&down=0")
    page.wait_text("#lock-count", "10,000 locks")
    work = page.driver.execute_async_script("""
        const done = arguments[0], view = document.querySelector(".view");
        const frames = [];
        let most = 0, last = performance.now(), i = 0;
        const seen = new Set();
        function step() {
          const now = performance.now();
          frames.push(now - last);
          last = now;
          most = Math.max(most, document.querySelectorAll(".space .row").length);
          for (const text of document.querySelectorAll(".space .cell.name .text")) seen.add(text.textContent);
          if (++i > 120) { done({ frames: frames.slice(2).sort((a, b) => a - b), most, seen: seen.size, elements: document.querySelectorAll("*").length }); return; }
          view.scrollTop = (view.scrollHeight - view.clientHeight) * i / 120;
          requestAnimationFrame(step);
        }
        requestAnimationFrame(step);""")
    assert work["most"] < 70 and work["elements"] < 900, work
    assert work["seen"] > 1500, "other rows are drawn while scrolling"
    assert work["frames"][len(work["frames"]) // 2] < allowed(0.034) * 1000, work["frames"]
    assert "many/09999" in names_shown(page)
    page.press("/")
    page.press("many/0123")
    page.wait_text("#lock-count", "10 locks")
    no_errors(page)


def test_token_is_requested_and_kept_in_memory_only(make_cluster, page):
    cluster = secure_cluster(make_cluster, 3)
    node = cluster.nodes[1]
    for name in ("app/one", "app/two"):
        answer = node.request("POST", f"/api/v1/locks/{name}/acquire", HELD, headers=bearer(cluster.tokens["red/lock"]))
        assert answer.json["acquired"], answer
    page.open(node, "locks")
    log_in(page, "hf_" + "a" * 43)
    page.wait_text(".problem", "does not accept this token")
    log_in(page, cluster.tokens["red/read"])
    page.wait_text("#lock-count", "2 locks")
    page.wait_text("#sign", "Sign out red/read")
    page.go("lock/app%2Fone")
    page.wait_text("#holders", "deployer@ci")
    assert page.all_text("button.force") == []  # it may not operate
    page.go("audit")
    page.wait_text("main", "may not see this")
    page.go("overview")
    page.wait_text("main", "No figures for this principal")
    page.go("lock/elsewhere")
    page.wait_text("main", "may not read this lock")
    assert page.js("return [localStorage.length, sessionStorage.length, document.cookie]") == [0, 0, ""]
    page.driver.refresh()
    page.wait_for(lambda: page.find("#token").is_displayed(), "a reload forgets the token")
    log_in(page, cluster.tokens["red/operate"])
    page.go("lock/app%2Fone")
    page.click("button.force")
    page.type("#reason", "it hangs")
    page.type("#typed", "app/one")
    page.click("#confirm")
    page.wait_text("#holders", "Nobody holds this lock")
    page.go("audit")
    page.wait_text("main", "red/operate", "app/one")
    page.go("locks")
    page.wait_text("#lock-count", "1 lock")
    node.kill()
    page.wait_for(lambda: "live from" in page.text("#live") and node.client not in page.text("#live"), "another node with the token")
    page.wait_text("#lock-stream", "live")
    page.click("#sign")
    page.wait_for(lambda: page.find("#token").is_displayed(), "signed out")
    assert "app/two" not in page.text()
    no_errors(page, "401", "403", "net::ERR")


def test_events_are_followed_and_paused(make_cluster, page):
    cluster = make_cluster(3)
    node = cluster.nodes[1]
    page.open(node, "events")
    page.wait_text("#event-state", "live")
    token = acquire(node, "a/one", "ann")
    page.wait_text("#events", "granted", "a/one", "ann")
    page.click("#pause")
    node.release("a/one", token, client="ann")
    page.wait_text("#event-state", "paused, 1 event")
    assert "released" not in page.text("#events")
    page.click("#pause")
    page.wait_text("#events", "released")
    page.type("#event-prefix", "b/")
    page.wait_for(lambda: page.text("#events") == "", "only the prefix")
    wait_until(lambda: acquire(node, f"b/{os.urandom(4).hex()}", "bob") and "bob" in page.text("#events"), "events of the prefix")
    assert acquire(node, "a/two", "ann") and "a/two" not in page.text("#events")
    no_errors(page)


def test_more_events_than_a_page_reads_are_counted(make_cluster, page):
    """The node sends the page as many events a second as it requests, and counts the others."""
    cluster = make_cluster(1)
    node = cluster.nodes[1]
    page.open(node, "events")
    page.wait_text("#event-state", "live")
    for i in range(10):
        names = [f"many/{i:03}/{j:02}" for j in range(64)]
        answer = node.request("POST", "/api/v1/multilock/acquire", {"client_id": "ann", "names": names})
        assert answer.status == 200 and answer.json["acquired"], answer
    page.wait_text("#events", "events are not shown: there were more than 200 a second")
    no_errors(page)


def test_holds_past_their_rule_are_listed(make_cluster, page):
    cluster = make_cluster(1)
    node = cluster.nodes[1]
    acquire(node, "billing/close", "worker-1@app-1")
    page.open(node, "alerts")
    page.wait_text("main", "No rules")
    wait_until(lambda: node.request("PUT", "/api/v1/alerts", {"prefix": "billing/", "after_ms": 1000, "actor_id": "olga"}).status == 200, "the rule is set")
    page.wait_text("#long-held", "billing/close", "worker-1@app-1")
    page.wait_text("#rules", "billing/", "1 s")
    page.go("overview")
    page.wait_text("#health", "1 lock is held longer than its rule allows")
    page.go("locks")
    page.wait_text(".space", "held too long")
    no_errors(page)


def test_hot_prefixes_are_shown(make_cluster, page):
    cluster = make_cluster(1)
    node = cluster.nodes[1]
    page.open(node, "hot?by=rate")
    for i in range(20):
        acquire(node, f"orders/{i}", "a")
    acquire(node, "billing/1", "a")
    page.wait_for(lambda: page.all_text("tbody tr td:first-child") == ["orders/", "billing/"], "the busiest first")
    assert not node.acquire("billing/1", client="b").json["acquired"]
    page.js("const s = document.getElementById('by'); s.value = 'contention'; s.dispatchEvent(new Event('change'))")
    page.wait_for(lambda: page.all_text("tbody tr td:first-child") == ["billing/"], "the contended one")
    no_errors(page)


def test_sessions_are_shown_with_their_locks(make_cluster, page):
    cluster = make_cluster(1)
    node = cluster.nodes[1]
    ids = [node.request("POST", "/api/v1/sessions", {"client_id": "worker-1@app-1", "ttl_ms": 60000}).json["session_id"] for _ in range(2)]
    for name, owner in (("jobs/1", 0), ("jobs/2", 0), ("jobs/3", 1)):
        body = {"session_id": ids[owner], "wait_timeout_ms": 0}
        assert node.request("POST", f"/api/v1/locks/{name}/acquire", body).json["acquired"]
    fast = {"session_id": ids[0], "tier": "EFFICIENCY"}
    assert node.request("POST", "/api/v1/locks/jobs/fast/acquire", fast).json["acquired"]
    waits = {"session_id": ids[0], "wait_timeout_ms": 600000}
    waiting = threading.Thread(target=node.request, args=("POST", "/api/v1/locks/jobs/3/acquire", waits), kwargs={"timeout": 600})
    waiting.start()
    wait_until(lambda: node.show("jobs/3").json["queue_length"] == 1, "it waits")
    page.open(node, "sessions")
    page.wait_text("main", "2 sessions", *ids)
    page.js("for (const e of document.querySelectorAll('summary')) if (e.textContent === '3 names') e.click()")  # jobs/fast counts in its tier
    shown = lambda: [line.split(" since ")[0] for line in page.all_text(".inner li")]
    page.wait_for(lambda: shown() == ["jobs/1 holds it", "jobs/2 holds it", "jobs/3 waits", "jobs/fast holds it"], "its locks, and not those of the other one")
    assert "EFFICIENCY" in page.all_text(".inner li")[3]
    assert node.request("DELETE", f"/api/v1/sessions/{ids[0]}").status == 200
    waiting.join()
    no_errors(page)


def test_members_say_what_they_see(make_cluster, page):
    cluster = make_cluster(3)
    page.open(cluster.nodes[1], "members")
    leader = cluster.leader()
    page.wait_for(lambda: page.text("tbody").count(f"node {leader.id} leads") == 3, "each member sees the leader")
    silent = next(node for node in cluster.followers() if node is not cluster.nodes[1])
    silent.kill()
    page.wait_text("tbody", "silent", "does not answer this page")
    no_errors(page, "net::ERR")


def test_audit_is_filtered_by_the_service(make_cluster, page):
    cluster = make_cluster(1)
    node = cluster.nodes[1]
    for name, actor in (("a/1", "olga"), ("a/2", "omar"), ("b/1", "olga")):
        acquire(node, name, "x")
        assert node.request("POST", f"/api/v1/locks/{name}/force-unlock", {"actor_id": actor, "reason": f"stuck {name}"}).status == 200
    shown = "tbody tr td:nth-child(3)"
    page.open(node, "audit")
    page.wait_for(lambda: page.all_text(shown) == ["b/1", "a/2", "a/1"], "the newest first")
    page.type("#audit-name", "a/")
    page.wait_for(lambda: page.all_text(shown) == ["a/2", "a/1"], "by prefix")
    page.type("#audit-actor", "olga")
    page.wait_for(lambda: page.all_text(shown) == ["a/1"], "by actor")
    page.js("const s = document.getElementById('audit-action'); s.value = 'REVOKE'; s.dispatchEvent(new Event('input'))")
    page.wait_text("main", "No record matches")
    no_errors(page)


def test_tls_and_http_2_serve_the_page_and_its_failover(make_cluster, page, tmp_path):
    ca = Authority(tmp_path / "ca")
    cluster = make_cluster(3, start=False)
    for node in cluster:
        node.flags += ca.flags(ca.node(node.id))
        node.tls = ca.context()
    cluster.start()
    leader = cluster.leader()
    assert leader.request("GET", "/").headers["content-security-policy"] == policy_of(cluster, "https")
    page.scheme = "https"
    page.open(leader, "locks")
    page.wait_text("main", "No locks are in use")
    assert page.js("return performance.getEntriesByType('navigation')[0].nextHopProtocol") == "h2"
    acquire(cluster.nodes[1], "before/failover", "a")
    page.wait_for(lambda: names_shown(page) == ["before/failover"], "an event over HTTP/2")
    leader.kill()
    cluster.leader(but=leader.id).acquire_surely("after/failover")
    page.wait_for(lambda: "after/failover" in names_shown(page), "the event of another node")
    no_errors(page, "net::ERR")


def test_a_page_at_another_address_says_what_it_cannot(make_cluster, page):
    cluster = make_cluster(3)
    node = cluster.nodes[1]
    page.driver.get(f"http://localhost:{node.client_port}/")
    page.wait_text("#notice", "no client address of a member", cluster.nodes[1].client)
    page.wait_text("#health", "All nodes answer")
    no_errors(page)


# --- pictures of the documents --------------------------------------------------


@pytest.mark.long
def test_pictures_for_the_documents(make_cluster, page):
    folder = os.environ.get("HOLDFAST_SCREENSHOTS")
    if not folder:
        pytest.skip("HOLDFAST_SCREENSHOTS names no folder")
    cluster = some_locks(make_cluster(5, name="payments"))
    ending = threading.Event()

    def work(client):
        node = cluster.nodes[client % 5 + 1]
        turn = 0
        while not ending.is_set():
            turn += 1
            name = f"orders/partition-{(turn * 7 + client) % 24:02}"
            answer = node.try_request("POST", f"/api/v1/locks/{name}/acquire", {"client_id": f"consumer-{client}", "ttl_ms": 5000, "wait_timeout_ms": 300})
            if answer and answer.status == 200 and answer.json["acquired"]:
                ending.wait(0.01 * (client + turn % 5))
                node.try_request("POST", f"/api/v1/locks/{name}/release", {"client_id": f"consumer-{client}", "fencing_token": answer.json["fencing_token"]})

    clients = [threading.Thread(target=work, args=(i,), daemon=True) for i in range(8)]
    for client in clients:
        client.start()
    page.size(1280, 800)
    page.open(cluster.nodes[1])
    wait_until(lambda: page.js("return document.querySelector('.plot .line-0').getAttribute('d').split('L').length") > 115, "a full plot", 300)
    for name, where, theme in (("overview", "overview", "light"), ("overview-dark", "overview", "dark"), ("locks", "locks?sort=queue&down=1", "light"),
                               ("lock", "lock/deploy%2Fweb", "light"), ("lock-dark", "lock/deploy%2Fweb", "dark")):
        page.scheme_of_system(theme)
        page.go(where)
        page.wait_text("main", "deployer@ci" if where != "overview" else "All nodes answer")
        if name.startswith("lock") and name != "locks":
            page.wait_text("#graph", "billing/close/customer-00")
        page.driver.save_screenshot(f"{folder}/dashboard-{name}.png")
    page.scheme_of_system("light")
    page.size(390, 844, mobile=True)
    page.go("lock/deploy%2Fweb")
    page.wait_text("#queue", "runner-3")
    page.driver.save_screenshot(f"{folder}/dashboard-phone.png")
    ending.set()
    for client in clients:
        client.join()
