package nix

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// boot runs boot-config.sh as the ISO does and returns what it wrote, by name. The daemon, if one is given, is asked.
func boot(t *testing.T, commandLine, volume, leases string, daemon ...string) (map[string]string, string, error) {
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
	_, output, err := script(t, "nixos/profiles/boot-config.sh", nil, "", append(arguments, daemon...)...)
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
				"runner.env":     "AJ_Runner__TestsAtOnce=\"1\"\nAJ_Server__BaseUrl=\"https://judge.example.org/api/v1\"\nAJ_Runner__Name=\"hall-2\"\n",
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
				"runner.env": "AJ_Runner__TestsAtOnce=\"1\"\nAJ_Runner__Name=\"from the image\"\n" +
					"AJ_Server__BaseUrl=\"http://[2001:db8::7]:8080/api/v1\"\nEVALHOST_LOG_LEVEL=\"debug\"\n",
				"egress":         "resolver 10.0.2.3 53\nresolver 10.0.2.4 53\ntime 192.0.2.123 123\nserver 2001:db8::7 8080\n",
				"resolv.conf":    "nameserver 10.0.2.3\nnameserver 10.0.2.4\n",
				"timesyncd.conf": "[Time]\nNTP=192.0.2.123\n",
			},
		},
		"the command line outranks the volume": {
			"evalhost.server=https://b.example:8443/api/v1",
			"AJ_Server__BaseUrl=https://a.example/api/v1\n", "",
			map[string]string{
				"runner.env":     "AJ_Runner__TestsAtOnce=\"1\"\nAJ_Runner__Name=\"from the image\"\nAJ_Server__BaseUrl=\"https://b.example:8443/api/v1\"\n",
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

// What systemd reads back from a quoted value is the value: the characters that mean something to it are told apart.
func TestWhatIsToldAtBootReachesTheDaemonAsItWasTold(t *testing.T) {
	written, output, err := boot(t, "quiet", `AJ_Server__BaseUrl=https://a.example/api/v1`+"\n"+`AJ_Runner__Name=hall "2" $HOME \ a=b`+" \n", "")
	if err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	if want := `AJ_Runner__Name="hall \"2\" \$HOME \\ a=b "` + "\n"; !strings.Contains(written["runner.env"], want) {
		t.Errorf("%s\nhas no line %s", written["runner.env"], want)
	}
}

// The daemon itself is asked, so that the console says what it would say to nobody.
func TestSettingsThatTheDaemonRefusesAreSaidOnTheConsole(t *testing.T) {
	daemon := filepath.Join(t.TempDir(), "evalhost-runner")
	build := exec.Command("go", "build", "-o", daemon, "./services/runner")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", build, err, out)
	}
	const server = "AJ_Server__BaseUrl=https://a.example/api/v1\n"
	for name, c := range map[string]struct{ volume, says string }{
		"an unknown key":        {server + "AJ_Server__BaseURI=x\n", "AJ_Server__BaseURI"},
		"a number that is none": {server + "AJ_Runner__TestsAtOnce=many\n", "AJ_Runner__TestsAtOnce"},
		"a foreign log level":   {server + "EVALHOST_LOG_LEVEL=loud\n", "EVALHOST_LOG_LEVEL"},
		"two of them":           {server + "EVALHOST_LOG_LEVEL=loud\nAJ_Server__BaseURI=x\n", "AJ_Server__BaseURI"},
	} {
		t.Run(name, func(t *testing.T) {
			written, output, err := boot(t, "quiet", c.volume, "", daemon)
			if err == nil || !strings.Contains(output, "the settings are refused") || !strings.Contains(output, c.says) {
				t.Errorf("%v: %s", err, output)
			}
			if len(written) > 0 {
				t.Errorf("written all the same: %v", written)
			}
		})
	}
	if _, output, err := boot(t, "evalhost.name=hall-2", server, "", daemon); err != nil {
		t.Errorf("good settings are refused: %v\n%s", err, output)
	}
	if _, output, err := boot(t, "quiet", server, "", "/nowhere/evalhost-runner"); err == nil {
		t.Errorf("without the program that knows, everything is taken: %s", output)
	}
}

func TestAVolumeThatIsNoneIsSaidOnTheConsole(t *testing.T) {
	devices, err := filepath.Glob("/dev/[lsv]*")
	if err != nil {
		t.Fatal(err)
	}
	device := ""
	for _, candidate := range devices {
		if info, err := os.Stat(candidate); err == nil && info.Mode()&os.ModeDevice != 0 && info.Mode()&os.ModeCharDevice == 0 {
			device = candidate
		}
	}
	empty, odd := t.TempDir(), t.TempDir()
	if err := os.Mkdir(filepath.Join(odd, "evalhost.env"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ volume, mount, says string }{
		"no file system":    {device, "echo wrong fs type >&2; exit 32", "cannot be mounted"},
		"mounted and empty": {device, "exit 0", "has no file evalhost.env"},
		"no file":           {empty, "exit 9", "has no file evalhost.env"},
		"a directory":       {odd, "exit 9", "has no file evalhost.env"},
		"no volume":         {filepath.Join(empty, "missing"), "exit 9", "no Server is named"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.volume == "" {
				t.Skip("NOT RUN: this machine has no block device to take for the volume")
			}
			out := filepath.Join(t.TempDir(), "out")
			// The device is never touched: mount and umount are stand-ins.
			_, output, err := script(t, "nixos/profiles/boot-config.sh", map[string]string{"mount": c.mount, "umount": "exit 0"}, "",
				write(t, ""), write(t, "quiet"), c.volume, empty, out)
			if err == nil || !strings.Contains(output, c.says) || !strings.Contains(output, "judges nothing until it is told") {
				t.Errorf("%v: %s", err, output)
			}
			if _, err := os.Stat(out); err == nil {
				t.Error("something was written all the same")
			}
		})
	}
}
