package holdfast

import (
	"errors"
	"testing"
)

func testNodes(t *testing.T, endpoints ...string) *nodes {
	t.Helper()
	n, err := newNodes(endpoints)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func failTimes(n *nodes, one *node, times int) {
	for i := 0; i < times; i++ {
		n.begun(one, false)
		n.failed(one, "refused", 0)
	}
}

func TestEndpointsAreParsedOrRefused(t *testing.T) {
	expect(t, "number", len(testNodes(t, "h:1, [::1]:65535", "i:2").all), 3)
	for _, wrong := range []string{"", "h", "h:", ":1", "h:0", "h:65536", "h:x", "::1:1"} {
		if _, err := newNodes([]string{wrong}); !errors.Is(err, ErrInvalid) {
			t.Errorf("%q: %v", wrong, err)
		}
	}
}

func TestAFailedNodeIsAvoidedAndAUsedOneIsUsedAgain(t *testing.T) {
	n := testNodes(t, "a:1", "b:1")
	a, b := n.all[0], n.all[1]
	n.begun(b, false)
	n.succeeded(b)
	expect(t, "the one used last", n.pick(0, nil), b)
	expect(t, "not the avoided one", n.pick(0, b), a)
	failTimes(n, b, 1)
	expect(t, "not the failed one", n.pick(1_000_000, nil), a)
}

func TestThreeFailuresOpenTheCircuitAndOneRequestProbesIt(t *testing.T) {
	n := testNodes(t, "a:1")
	a := n.all[0]
	failTimes(n, a, 2)
	expect(t, "two failures", a.isOpen(), false)
	failTimes(n, a, 1)
	expect(t, "three failures", a.isOpen() && n.allOpen(0) && n.pick(0, nil) == nil, true)
	probeAt := a.notBefore
	expect(t, "its rest", probeAt >= 125 && probeAt <= 250, true)
	expect(t, "the probe", !n.allOpen(probeAt) && n.pick(probeAt, nil) == a, true)
	n.begun(a, false)
	expect(t, "one probe at a time", n.pick(probeAt, nil), nil)
	n.succeeded(a)
	expect(t, "closed again", !a.isOpen() && n.pick(probeAt, nil) == a, true)
}

func TestAWaitIsNoProbe(t *testing.T) {
	n := testNodes(t, "a:1")
	failTimes(n, n.all[0], 3)
	n.begun(n.all[0], true)
	expect(t, "others may probe", n.all[0].mayTry(openMS), true)
}

func TestTheRestOfAnOpenCircuitIsLimited(t *testing.T) {
	n := testNodes(t, "a:1")
	failTimes(n, n.all[0], 5000)
	expect(t, "rest", n.all[0].notBefore <= openMaxMS, true)
}
