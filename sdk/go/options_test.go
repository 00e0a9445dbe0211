package holdfast

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestWrongOptionsAreRefused(t *testing.T) {
	readable := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(readable, []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, wrong := range []Options{
		{Endpoints: []string{"nowhere"}},
		{Token: "a\r\nX: b"},
		{Token: "a", TokenFile: "b"},
		{TokenFile: readable},
		{TokenFile: "/nonexistent"},
		{Tenant: "a b"},
		{SessionTTL: 999 * time.Millisecond},
		{Timeout: -1},
	} {
		if client, err := Open(wrong); !errors.Is(err, ErrInvalid) {
			t.Errorf("%+v: %v", wrong, err)
			if err == nil {
				client.Close()
			}
		}
	}
}

func TestWrongArgumentsAreRefusedWithoutANode(t *testing.T) {
	client, err := Open(Options{Endpoints: []string{"127.0.0.1:1"}})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx := context.Background()
	for name, attempt := range map[string]func() error{
		"ttl":      func() error { _, err := client.Lock(ctx, "n", TTL(time.Millisecond)); return err },
		"wait":     func() error { _, err := client.Lock(ctx, "n", Wait(-time.Second)); return err },
		"hold":     func() error { _, err := client.Lock(ctx, "n", MaxHold(time.Millisecond)); return err },
		"metadata": func() error { _, err := client.Lock(ctx, "n", Metadata(make(chan int))); return err },
		"names":    func() error { _, err := client.MultiLock(ctx, nil); return err },
		"shared":   func() error { _, err := client.MultiLock(ctx, []string{"n"}, Shared()); return err },
		"tier":     func() error { _, err := client.Campaign(ctx, "n", InTier(Efficiency)); return err },
		"watch":    func() error { _, err := client.Watch(After("x")); return err },
	} {
		if err := attempt(); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestATokenIsReadAgainFromItsFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("first\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	source, err := newTokenSource("", file)
	if err != nil {
		t.Fatal(err)
	}
	expect(t, "token", source.get(), "first")
	expect(t, "the same token", source.reload(), false)
	if err := os.WriteFile(file, []byte("second\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	expect(t, "another token", source.reload(), true)
	expect(t, "token", source.get(), "second")
}
