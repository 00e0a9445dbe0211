package holdfasttest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"
	"sync"
)

const maxEvents = 10000 // that a stream can resume from

type event struct {
	number    int64
	kind      string
	sessionID string // only for this session
	name      string
	data      []byte
}

func (e *event) text() string {
	return fmt.Sprintf("id: %d-0\nevent: %s\ndata: %s\n\n", e.number, e.kind, e.data)
}

type events struct {
	number  int64
	kept    []*event
	streams map[*stream]bool
}

func (e *events) emit(kind string, now int64, about object, sessionID string, more object) {
	data := object{"type": kind, "at": wall(now)}
	for _, part := range []object{about, more} {
		for key, value := range part {
			data[key] = value
		}
	}
	encoded, err := json.Marshal(data)
	if err != nil {
		panic(err)
	}
	name, _ := about["name"].(string)
	e.number++
	one := &event{e.number, kind, sessionID, name, encoded}
	e.kept = append(e.kept, one)
	if len(e.kept) > maxEvents {
		e.kept = e.kept[1:]
	}
	for s := range e.streams {
		s.offer(one)
	}
}

// ofSession are the events for a session after number.
func (e *events) ofSession(id string, number int64) (found []*event) {
	for _, one := range e.kept {
		if one.sessionID == id && one.number > number {
			found = append(found, one)
		}
	}
	return found
}

// subscribe returns the stream of a watch, after lastID if it is not "".
func (e *events) subscribe(query url.Values, lastID string) *stream {
	s := &stream{prefix: query.Get("prefix"), events: e}
	s.changed = sync.NewCond(&s.mutex)
	from := e.number
	if lastID != "" {
		index, _, _ := strings.Cut(lastID, "-")
		from, _ = strconv.ParseInt(index, 10, 64)
	}
	s.text = fmt.Sprintf("id: %d-0\nevent: ready\ndata: {}\n\n", from)
	for _, one := range e.kept {
		if one.number > from {
			s.offer(one)
		}
	}
	if e.streams == nil {
		e.streams = map[*stream]bool{}
	}
	e.streams[s] = true
	return s
}

// stream is the body of an answer.
type stream struct {
	prefix  string
	events  *events
	mutex   sync.Mutex
	changed *sync.Cond
	text    string
	isOver  bool
}

func (s *stream) offer(e *event) {
	if e.sessionID != "" || !strings.HasPrefix(e.name, s.prefix) {
		return
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.text += e.text()
	s.changed.Broadcast()
}

func (s *stream) Read(to []byte) (int, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for s.text == "" && !s.isOver {
		s.changed.Wait()
	}
	if s.isOver {
		return 0, io.EOF
	}
	n := copy(to, s.text)
	s.text = s.text[n:]
	return n, nil
}

func (s *stream) Close() error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.isOver = true
	s.changed.Broadcast()
	return nil
}
