package holdfast

import (
	"os"
	"runtime"
	"strings"
	"sync"
)

// tokenSource has the bearer token. A token from a file is read again when a node refuses it.
type tokenSource struct {
	file  string
	mutex sync.Mutex
	token string
}

func newTokenSource(token, file string) (*tokenSource, error) {
	t := &tokenSource{file: file, token: token}
	if file != "" {
		if token != "" {
			return nil, newError(ErrInvalid, "invalid_token", "Token and TokenFile are both set; set one of them")
		}
		var err error
		if t.token, err = readToken(file); err != nil {
			return nil, err
		}
	}
	if !isPlain(t.token) {
		return nil, newError(ErrInvalid, "invalid_token", "the token has characters that a header cannot have")
	}
	return t, nil
}

// isPlain: visible ASCII.
func isPlain(text string) bool {
	for i := 0; i < len(text); i++ {
		if text[i] <= ' ' || text[i] > '~' {
			return false
		}
	}
	return true
}

func readToken(file string) (string, error) {
	info, err := os.Stat(file)
	if err != nil {
		return "", newError(ErrInvalid, "invalid_token_file", "the token file cannot be read: %v", err)
	}
	if runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		return "", newError(ErrInvalid, "invalid_token_file",
			"the token file %s can be read by other users (mode %04o); run: chmod 600 %s", file, info.Mode().Perm(), file)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return "", newError(ErrInvalid, "invalid_token_file", "the token file cannot be read: %v", err)
	}
	token := strings.TrimSpace(string(data))
	if token == "" {
		return "", newError(ErrInvalid, "invalid_token_file", "the token file %s is empty", file)
	}
	return token, nil
}

func (t *tokenSource) get() string {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return t.token
}

// reload reports whether the file has another token than before.
func (t *tokenSource) reload() bool {
	if t.file == "" {
		return false
	}
	token, err := readToken(t.file)
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if err != nil || token == t.token || !isPlain(token) {
		return false
	}
	t.token = token
	return true
}
