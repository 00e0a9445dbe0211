package holdfast

import (
	"context"
	"time"
)

// clock is the clock of all deadlines, in ms. It counts the time in suspend, or comes nearest to that (C1.1).
type clock interface {
	now() int64
}

// withTimeout is context.WithTimeout, by the timers of the clock if it has its own.
func withTimeout(ctx context.Context, c clock, d time.Duration) (context.Context, context.CancelFunc) {
	if own, ok := c.(interface {
		withTimeout(context.Context, time.Duration) (context.Context, context.CancelFunc)
	}); ok {
		return own.withTimeout(ctx, d)
	}
	return context.WithTimeout(ctx, d)
}

// sleep returns early when ctx ends.
func sleep(ctx context.Context, c clock, d time.Duration) {
	if own, ok := c.(interface {
		sleep(context.Context, time.Duration)
	}); ok {
		own.sleep(ctx, d)
		return
	}
	timer, cancel := withTimeout(ctx, c, d)
	defer cancel()
	<-timer.Done()
}

// begin tells a clock that has its own timers that an operation runs until `end`.
func begin(ctx context.Context, c clock) (operation context.Context, end func()) {
	if own, ok := c.(interface {
		begin(context.Context) (context.Context, func())
	}); ok {
		return own.begin(ctx)
	}
	return ctx, func() {}
}

type clockFunc func() int64

func (f clockFunc) now() int64 { return f() }

// elapsedClock is the larger of the elapsed monotonic and wall time, so it is never behind a suspend.
type elapsedClock struct {
	monotonic func() time.Duration
	wall      func() time.Duration
}

func newElapsedClock() *elapsedClock {
	began := time.Now()
	wall := began.Round(0) // without its monotonic reading
	return &elapsedClock{
		monotonic: func() time.Duration { return time.Since(began) },
		wall:      func() time.Duration { return time.Now().Round(0).Sub(wall) },
	}
}

func (c *elapsedClock) now() int64 {
	elapsed := c.monotonic()
	if wall := c.wall(); wall > elapsed {
		elapsed = wall
	}
	return elapsed.Milliseconds()
}
