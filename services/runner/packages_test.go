package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/evalhost/evalhost/services/internal/cache"
	"github.com/evalhost/evalhost/services/internal/protocol"
	"github.com/evalhost/evalhost/services/internal/verdict"
)

// archive is a Source of one package.
type archive []byte

func (a archive) Download(_ context.Context, _ protocol.Wanted, w io.Writer) (verdict.Bytes, error) {
	n, err := io.Copy(w, bytes.NewReader(a))
	return verdict.Bytes(n), err
}

// A Runner that shares a cache learns that another one prepares the package, and when it has waited for that.
func TestWaitingForAnotherRunnersPackageIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		content := archive("a package")
		sum := sha256.Sum256(content)
		ref := protocol.PackageRef{ID: "p", SHA256: hex.EncodeToString(sum[:])}
		dir := t.TempDir()
		shared := func(instance string) packages {
			c, err := cache.Open(cache.Config{Path: dir, Instance: instance, MaxBytes: verdict.GiB})
			if err != nil {
				t.Fatal(err)
			}
			return packages{c}
		}
		first, err := shared("one").Hold(t.Context(), ref, content, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer first.Release()
		var waits []bool
		second, err := shared("two").Hold(t.Context(), ref, content, func(waiting bool) { waits = append(waits, waiting) })
		if err != nil {
			t.Fatal(err)
		}
		defer second.Release()
		done := make(chan error, 1)
		go func() {
			_, err := first.Tree(t.Context(), func(_ context.Context, _, target string) (int, error) {
				time.Sleep(40 * time.Minute)
				return 0, os.Mkdir(target, 0o755)
			})
			done <- err
		}()
		synctest.Wait() // it has the package
		began := time.Now()
		if _, err := second.Tree(t.Context(), nil); err != nil || time.Since(began) < 40*time.Minute || !slices.Equal(waits, []bool{true, false}) {
			t.Errorf("%v after %v; of its waits it was told %v", err, time.Since(began), waits)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
