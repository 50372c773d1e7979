//go:build !guest

package sandbox

import (
	"context"
	"os"
	"sync"
	"testing"

	"github.com/evalhost/evalhost/shim/wire"
)

// The shim's own work after go is processor time of the home. A shim that hangs before it has let the program go leaves a home that has
// worked, and nobody to blame for it.
func TestAShimThatHangsBeforeTheProgramIsNeverStarted(t *testing.T) {
	var all sync.WaitGroup
	for name, test := range map[string]struct {
		until func(c *box) // how far the shim comes
		image bool         // it is the image's own
		want  Stop
	}{
		"before it has made the box":         {until: func(*box) {}, want: NeverStarted},
		"before the program is in the box":   {until: func(c *box) { c.letGo(); c.boxSays(0, 0) }, want: NeverStarted},
		"when the program has been let go":   {until: func(c *box) { c.letGo() }, want: WallClock},
		"when the program has ended":         {until: func(c *box) { c.letGo(); c.boxSays(10, 0) }, want: WallClock},
		"an image's own, and nobody's boxes": {until: func(*box) {}, image: true, want: WallClock},
	} {
		l := newLab(t, &fakeDaemon{judged: func(ctx context.Context, c *box) int {
			out, _ := os.OpenFile(c.host(wire.StdoutPath), os.O_WRONLY, 0)
			defer out.Close()
			c.burn(60 * ms)
			test.until(c)
			<-ctx.Done()
			return 0
		}}, func(cfg *Config) {
			if test.image {
				cfg.Shim = ""
			}
		})
		r := l.plain(&sink{})
		r.Limits.Time = ms
		all.Go(func() { // each takes its window of 4 s
			if o, err := l.judge(r); err != nil || o.Stop != test.want {
				t.Errorf("%s: ended as %v, %v; want %v", name, o.Stop, err, test.want)
			}
		})
	}
	all.Wait()
}
