//go:build guest

package suite

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// connect is a probe in the kernel on every connect(2): the address family, the port and address of an IPv4 target, the first
// bytes of an IPv6 one, and the path of a local one. Every stream goes through it, and every datagram of Go's resolver, which connects
// its sockets. A datagram that is sent without (sendto, sendmsg) is not seen, nor is a child of another name; the daemon's only children are the shim, asked for its features, and an empty script of the host
// check.
const connect = `p:evalhost/connect __sys_connect family=+u0(%si):u16 port=+u2(%si):u16 v4=+u4(%si):u32 high=+u8(%si):u64 low=+u16(%si):u64 path=+u2(%si):ustring`

// traced is a line of the recording. The path means something for local sockets only; for others it is whatever bytes the
// address has, a line end among them.
var traced = regexp.MustCompile(`connect: .*family=(\d+) port=(\d+) v4=(\d+) high=(\S+) low=(\S+) path="?([^"]*)`)

// record records every connection that a process called evalhost-runner opens, from now on until the returned function is
// called, which gives the targets: host:port, or the path of a local socket.
func record(t *testing.T) func() []string {
	t.Helper()
	tracing := t.TempDir()
	must(t, unix.Mount("tracefs", tracing, "tracefs", 0, ""))
	t.Cleanup(func() { _ = unix.Unmount(tracing, 0) })
	put := func(file, text string, flags int) {
		t.Helper()
		f, err := os.OpenFile(filepath.Join(tracing, file), os.O_WRONLY|flags, 0)
		must(t, err)
		_, err = f.WriteString(text)
		must(t, err)
		must(t, f.Close())
	}
	put("trace", "", os.O_TRUNC)
	put("kprobe_events", connect+"\n", os.O_APPEND)
	put("buffer_size_kb", "4096", 0)
	put("events/evalhost/connect/filter", `comm == "evalhost-runner"`, 0)
	put("events/evalhost/connect/enable", "1", 0)
	t.Cleanup(func() {
		put("events/evalhost/connect/enable", "0", 0)
		put("kprobe_events", "-:evalhost/connect\n", os.O_APPEND)
	})
	return func() (targets []string) {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(tracing, "trace"))
		must(t, err)
		if strings.Contains(string(text), "LOST") {
			t.Error("the recording is not whole")
		}
		for line := range strings.Lines(string(text)) {
			if strings.HasPrefix(line, "#") || !strings.Contains(line, "connect:") {
				continue
			}
			m := traced.FindStringSubmatch(line)
			if m == nil {
				t.Fatalf("a line of the recording that cannot be read: %s", line)
			}
			targets = append(targets, target(m[1], m[2], m[3], m[4], m[5], strings.TrimSpace(m[6])))
		}
		return targets
	}
}

// target reads what the probe saw.
func target(family, port, v4, high, low, path string) string {
	number := func(text string) uint64 {
		n, err := strconv.ParseUint(text, 0, 64)
		if err != nil {
			return 0
		}
		return n
	}
	var bytes [16]byte
	p := binary.BigEndian.Uint16(binary.NativeEndian.AppendUint16(nil, uint16(number(port))))
	switch number(family) {
	case unix.AF_UNIX:
		return path
	case unix.AF_INET:
		binary.NativeEndian.PutUint32(bytes[:4], uint32(number(v4)))
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte(bytes[:4])), p).String()
	case unix.AF_INET6:
		binary.NativeEndian.PutUint64(bytes[:8], number(high))
		binary.NativeEndian.PutUint64(bytes[8:], number(low))
		return netip.AddrPortFrom(netip.AddrFrom16(bytes), p).String()
	}
	return fmt.Sprintf("a socket of the family %s", family)
}
