package holdfast

import (
	"fmt"
	"testing"
)

func TestAMemoryFenceRefusesLowerTokens(t *testing.T) {
	var fence MemoryFence
	for _, step := range []struct {
		resource string
		token    int64
		kind     error
	}{{"a", 10, nil}, {"a", 10, nil}, {"a", 9, ErrStale}, {"b", 1, nil}, {"a", 11, nil}, {"a", 10, ErrStale}, {"c", 0, ErrInvalid}} {
		expectKind(t, fmt.Sprint(step), fence.Guard(step.resource, step.token), step.kind)
	}
	for i := 2; i < maxMarks; i++ {
		if err := fence.Guard(fmt.Sprint(i), 1); err != nil {
			t.Fatal(err)
		}
	}
	expectKind(t, "one more", fence.Guard("more", 1), ErrLimitReached)
	expectKind(t, "a known one", fence.Guard("a", 12), nil)
}
