// Package holdfast is a client of Holdfast, a distributed lock service whose grants carry fence tokens.
//
//	client, err := holdfast.Open(holdfast.Options{Endpoints: []string{"10.0.0.1:4653", "10.0.0.2:4653"}})
//	...
//	lock, err := client.Lock(ctx, "wallet:user_123", holdfast.TTL(30*time.Second))
//	if err != nil {
//		return err
//	}
//	defer lock.Unlock(context.Background())
//	if err := lock.Check(); err != nil { // directly before a side effect
//		return err
//	}
//	err = writeBalance(lock.Context(), lock.FenceToken()) // the resource refuses lower tokens
//
// The fence token is what makes it safe. Check narrows the window in which a paused process writes; only the resource
// closes it.
//
// A client has one session for all its locks, opened with the first one. It keeps the session alive in the background,
// through any of its nodes. Clients and locks may be used by many goroutines. The rules that this package follows, cited
// as C2.1, are in docs/CLIENTS.md; S5.1 is a promise of docs/SEMANTICS.md.
package holdfast
