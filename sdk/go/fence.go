package holdfast

import (
	"errors"
	"sync"
)

// ErrStale: a MemoryFence has seen a higher token. Refuse the write.
var ErrStale = errors.New("stale token")

const maxMarks = 65536

// MemoryFence is the guard of resources that live in the memory of this process. The zero value is ready for use. A resource
// with durable data keeps the mark with the data instead, as the fences in contrib do.
type MemoryFence struct {
	mutex sync.Mutex
	marks map[string]int64
}

// Guard returns nil if no higher token was seen for the resource, and remembers the token; otherwise an ErrStale. Call it
// inside the serialised write of the resource.
func (f *MemoryFence) Guard(resource string, token int64) error {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	mark, known := f.marks[resource]
	if token < mark {
		return newError(ErrStale, "stale_token", "the token %d for %s is stale: %d was seen", token, resource, mark)
	}
	if token <= 0 {
		return newError(ErrInvalid, "invalid_token", "%d is not a fence token", token)
	}
	if !known && len(f.marks) >= maxMarks {
		return newError(ErrLimitReached, "limit", "the fence has %d resources, which is the limit; %s is not one of them", maxMarks, resource)
	}
	if f.marks == nil {
		f.marks = map[string]int64{}
	}
	f.marks[resource] = token
	return nil
}
