package holdfast

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Streams of server-sent events, resumed at any node without a gap (C8).

const (
	streamHeadFor = 5 * time.Second
	streamSilence = 30 * time.Second // a stream without a byte for so long is opened anew
	maxEventLine  = 1 << 20
)

var eventID = regexp.MustCompile(`^[0-9]{1,16}-[0-9]{1,10}$`)

// Event of the service. Events of the tier EFFICIENCY have no ID.
type Event struct {
	ID   string
	Type string
	Name string // of the lock or election, if the event has one
	Data json.RawMessage
}

type eventStream struct {
	engine *engine
	path   string
	lastID string
	// After a reset, the ids of a restored cluster may be lower than the last one.
	isReset bool
	avoid   *node
}

func newEventStream(e *engine, path, lastID string) *eventStream {
	return &eventStream{engine: e, path: path, lastID: lastID}
}

// follow passes on all events, over as many streams as it takes, until emit returns false, ctx ends (nil), or the service
// refuses the stream.
func (s *eventStream) follow(ctx context.Context, emit func(Event) bool) error {
	for ctx.Err() == nil {
		more, err := s.once(ctx, emit)
		if !more || err != nil {
			return err
		}
		sleep(ctx, s.engine.clock, duration(jitter(retryMaxMS)))
	}
	return nil
}

// once reads one stream to its end. False: emit wants no more.
func (s *eventStream) once(ctx context.Context, emit func(Event) bool) (bool, error) {
	e := s.engine
	n := e.caller.nodes.pick(e.clock.now(), s.avoid)
	if n == nil {
		return true, nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	silence := time.AfterFunc(streamHeadFor, cancel)
	defer silence.Stop()
	header := http.Header{}
	if s.lastID != "" {
		header.Set("Last-Event-ID", s.lastID)
	}
	s.avoid = n
	response, failed := e.transport.send(ctx, n, "GET", s.path, nil, header)
	if failed != nil {
		return true, nil
	}
	defer response.Body.Close()
	switch response.StatusCode {
	case http.StatusOK:
	case http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true, nil
	default:
		status, body, failed := readReply(response)
		if failed != nil {
			return true, nil
		}
		return false, refusedError(status, body)
	}
	s.avoid = nil
	lines := bufio.NewReader(response.Body)
	return s.read(lines, silence, emit)
}

func (s *eventStream) read(lines *bufio.Reader, silence *time.Timer, emit func(Event) bool) (bool, error) {
	fields := map[string]string{}
	for {
		silence.Reset(streamSilence)
		line, err := readLine(lines)
		if err != nil {
			return true, nil
		}
		if line != "" {
			if name, value, ok := strings.Cut(line, ":"); ok && name != "" {
				fields[name] = strings.TrimPrefix(value, " ")
			}
			continue
		}
		if fields["event"] == "" {
			continue
		}
		silence.Stop() // the application may take its time
		event := Event{ID: fields["id"], Type: fields["event"], Data: json.RawMessage(fields["data"])}
		fields = map[string]string{}
		if !json.Valid(event.Data) {
			return true, nil
		}
		if !s.note(event) {
			continue
		}
		if !emit(named(event)) {
			return false, nil
		}
	}
}

func readLine(lines *bufio.Reader) (string, error) {
	var line []byte
	for {
		piece, err := lines.ReadSlice('\n')
		line = append(line, piece...)
		if err == nil {
			return strings.TrimRight(string(line), "\r\n"), nil
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return "", err
		}
		if len(line) > maxEventLine {
			return "", io.ErrUnexpectedEOF
		}
	}
}

// note remembers where to resume. False: the event was delivered before (C8.1).
func (s *eventStream) note(event Event) bool {
	if event.Type == eventReset {
		s.isReset = true
	}
	if event.ID == "" {
		return true
	}
	isPosition := event.Type == eventReady || event.Type == eventDropped
	if !isPosition && !s.isReset && !isAfter(event.ID, s.lastID) {
		return false
	}
	s.lastID = event.ID
	s.isReset = s.isReset && isPosition
	return true
}

func isAfter(id, last string) bool {
	index, ordinal := splitID(id)
	lastIndex, lastOrdinal := splitID(last)
	return last == "" || index > lastIndex || index == lastIndex && ordinal > lastOrdinal
}

func splitID(id string) (uint64, uint64) {
	index, ordinal, _ := strings.Cut(id, "-")
	i, _ := strconv.ParseUint(index, 10, 64)
	o, _ := strconv.ParseUint(ordinal, 10, 64)
	return i, o
}

func named(event Event) Event {
	var data struct {
		Name string `json:"name"`
	}
	if json.Unmarshal(event.Data, &data) == nil {
		event.Name = data.Name
	}
	return event
}
