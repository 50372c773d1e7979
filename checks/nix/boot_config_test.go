package nix

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// boot runs boot-config.sh as the ISO does and returns what it wrote, by name.
func boot(t *testing.T, commandLine, volume, leases string) (map[string]string, string, error) {
	t.Helper()
	dir := t.TempDir()
	arguments := []string{
		write(t, "AJ_Runner__TestsAtOnce=1\nAJ_Runner__Name=from the image\n"), write(t, commandLine),
		filepath.Join(dir, "volume"), filepath.Join(dir, "leases"), filepath.Join(dir, "out"),
	}
	for file, content := range map[string]string{"volume/evalhost.env": volume, "leases/2": leases} {
		if content == "" {
			continue
		}
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, file)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, file), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	_, output, err := script(t, "nixos/profiles/boot-config.sh", nil, "", arguments...)
	written := map[string]string{}
	entries, _ := os.ReadDir(filepath.Join(dir, "out"))
	for _, entry := range entries {
		content, readErr := os.ReadFile(filepath.Join(dir, "out", entry.Name()))
		if readErr != nil {
			t.Fatal(readErr)
		}
		written[entry.Name()] = string(content)
	}
	return written, output, err
}

func TestAHostIsToldAtBootWhomItJudgesFor(t *testing.T) {
	const times = "time 0.nixos.pool.ntp.org 123\ntime 1.nixos.pool.ntp.org 123\n"
	const clock = "[Time]\nNTP=0.nixos.pool.ntp.org 1.nixos.pool.ntp.org\n"
	for name, c := range map[string]struct {
		commandLine, volume, leases string
		want                        map[string]string
	}{
		"command line": {
			"initrd=\\x root=/dev/x evalhost.server=https://judge.example.org/api/v1 evalhost.name=hall-2 evalhost.resolver=192.0.2.53,2001:db8::53 quiet\n",
			"", "DNS=198.51.100.1\n",
			map[string]string{
				"runner.env":     "AJ_Runner__TestsAtOnce=1\nAJ_Server__BaseUrl=https://judge.example.org/api/v1\nAJ_Runner__Name=hall-2\n",
				"egress":         "resolver 192.0.2.53 53\nresolver 2001:db8::53 53\n" + times + "server judge.example.org 443\n",
				"resolv.conf":    "nameserver 192.0.2.53\nnameserver 2001:db8::53\n",
				"timesyncd.conf": clock,
			},
		},
		"volume, written on another system, and resolvers of the network": {
			"quiet\n",
			"# ours\r\nAJ_Server__BaseUrl=http://[2001:db8::7]:8080/api/v1\r\n\r\ntime=192.0.2.123\r\nEVALHOST_LOG_LEVEL=debug",
			"ADDRESS=10.0.2.15\nDNS=10.0.2.3 10.0.2.4\n",
			map[string]string{
				"runner.env": "AJ_Runner__TestsAtOnce=1\nAJ_Runner__Name=from the image\n" +
					"AJ_Server__BaseUrl=http://[2001:db8::7]:8080/api/v1\nEVALHOST_LOG_LEVEL=debug\n",
				"egress":         "resolver 10.0.2.3 53\nresolver 10.0.2.4 53\ntime 192.0.2.123 123\nserver 2001:db8::7 8080\n",
				"resolv.conf":    "nameserver 10.0.2.3\nnameserver 10.0.2.4\n",
				"timesyncd.conf": "[Time]\nNTP=192.0.2.123\n",
			},
		},
		"the command line outranks the volume": {
			"evalhost.server=https://b.example:8443/api/v1",
			"AJ_Server__BaseUrl=https://a.example/api/v1\n", "",
			map[string]string{
				"runner.env":     "AJ_Runner__TestsAtOnce=1\nAJ_Runner__Name=from the image\nAJ_Server__BaseUrl=https://b.example:8443/api/v1\n",
				"egress":         times + "server b.example 8443\n",
				"resolv.conf":    "",
				"timesyncd.conf": clock,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, output, err := boot(t, c.commandLine, c.volume, c.leases)
			if err != nil {
				t.Fatalf("%v\n%s", err, output)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("written (-want +got):\n%s", diff)
			}
			if !strings.Contains(output, "evalhost: judging for http") {
				t.Errorf("the console does not say so: %s", output)
			}
		})
	}
}

func TestAHostThatIsToldTooLittleSaysWhatIsMissingAndWritesNothing(t *testing.T) {
	for name, c := range map[string]struct{ commandLine, volume, says string }{
		"nothing at all":          {"quiet", "", "no Server is named"},
		"a volume without it":     {"quiet", "AJ_Runner__Name=x\n", "no Server is named"},
		"a slip of the pen":       {"quiet", "AJ_Server__BaseUrl https://a.example/api/v1\n", "line 1 of evalhost.env"},
		"a foreign variable":      {"quiet", "LD_PRELOAD=/x\n", "is no setting: LD_PRELOAD"},
		"no address":              {"evalhost.server=judge.example.org", "", "no http or https address"},
		"somebody's password":     {"evalhost.server=https://me:secret@a.example/api/v1", "", "no plain host"},
		"an unknown kernel word":  {"evalhost.servre=https://a.example/api/v1", "", "none of evalhost.server"},
		"an empty address":        {"evalhost.server=", "", "no Server is named"},
		"an address with no path": {"evalhost.server=https://a.example", "", "no http or https address with a path"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			written, output, err := boot(t, c.commandLine, c.volume, "")
			if err == nil || !strings.Contains(output, c.says) {
				t.Errorf("%v: %s", err, output)
			}
			if !strings.Contains(output, "This machine judges nothing until it is told") || !strings.Contains(output, "evalhost.server=https://") {
				t.Errorf("the console does not say what to do: %s", output)
			}
			if len(written) > 0 {
				t.Errorf("written all the same: %v", written)
			}
		})
	}
}
