package holdfast

import (
	"syscall"
	"unsafe"
)

const clockBoottime = 7

func boottime() (int64, bool) {
	var t syscall.Timespec
	_, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clockBoottime, uintptr(unsafe.Pointer(&t)), 0)
	return t.Nano() / 1_000_000, errno == 0
}

// systemClock is CLOCK_BOOTTIME. A sandbox may refuse the system call.
func systemClock() clock {
	if _, ok := boottime(); !ok {
		return newElapsedClock()
	}
	return clockFunc(func() int64 {
		ms, ok := boottime()
		if !ok {
			panic("holdfast: clock_gettime(CLOCK_BOOTTIME) worked before and fails now")
		}
		return ms
	})
}

// ClockName is the clock of the deadlines: "boottime", or "larger" for the larger of monotonic and wall time.
func ClockName() string {
	if _, ok := boottime(); ok {
		return "boottime"
	}
	return "larger"
}
