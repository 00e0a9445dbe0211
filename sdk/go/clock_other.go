//go:build !linux

package holdfast

func systemClock() clock { return newElapsedClock() }

// ClockName is the clock of the deadlines: "boottime", or "larger" for the larger of monotonic and wall time.
func ClockName() string { return "larger" }
