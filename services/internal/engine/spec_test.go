package engine

import (
	"bytes"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/evalhost/evalhost/services/internal/verdict"
)

// plain is the least a container can be.
func plain() Spec {
	return Spec{
		Name: "evalhost-x", Instance: "x", Image: Image{Reference: "lang", ID: "sha256:1"}, Argv: []string{"/bin/true"},
		Memory: 64 * verdict.MiB, Pids: 16, FileSize: verdict.MiB, Parent: "evalhost-x.slice",
	}
}

func TestASpecThatAsksForLessThanASandboxIsRefused(t *testing.T) {
	if err := plain().check(); err != nil {
		t.Fatal(err)
	}
	mount := func(source, target string) func(*Spec) {
		return func(s *Spec) { s.Mounts = []Mount{{Source: source, Target: target}} }
	}
	for name, spoil := range map[string]func(*Spec){
		"no name":                            func(s *Spec) { s.Name = "" },
		"no instance":                        func(s *Spec) { s.Instance = "" },
		"an image that was not looked up":    func(s *Spec) { s.Image.ID = "" },
		"N9 an image with a volume":          func(s *Spec) { s.Image.Volumes = []string{"/data"} },
		"no command":                         func(s *Spec) { s.Argv = nil },
		"an empty command":                   func(s *Spec) { s.Argv = []string{""} },
		"no memory limit":                    func(s *Spec) { s.Memory = 0 },
		"a memory limit the runtime refuses": func(s *Spec) { s.Memory = 6*verdict.MiB - 1 },
		"unlimited memory":                   func(s *Spec) { s.Memory = -1 },
		"no limit on processes":              func(s *Spec) { s.Pids = 0 },
		"unlimited processes":                func(s *Spec) { s.Pids = -1 },
		"no limit on files":                  func(s *Spec) { s.FileSize = 0 },
		"a negative /tmp":                    func(s *Spec) { s.Tmp = -1 },
		"no cgroup of its own":               func(s *Spec) { s.Parent = "" },
		"a judged run with a writable root":  func(s *Spec) { s.Shim, s.WritableRoot = true, true },
		"a relative source":                  mount("scratch", "/src"),
		"a relative target":                  mount("/scratch", "src"),
		"a source that climbs":               mount("/scratch/../etc", "/src"),
		"the host's root":                    mount("/", "/src"),
		"the container's root":               mount("/scratch", "/"),
		"the daemon's socket":                mount("/var/run/docker.sock", "/src"),
		"the daemon's socket, elsewhere":     mount("/run/docker.sock", "/src"),
		"where the socket would be":          mount("/scratch", "/var/run/docker.sock"),
	} {
		s := plain()
		spoil(&s)
		if err := s.check(); err == nil {
			t.Errorf("%s was accepted", name)
		}
		if _, _, err := s.configs(); err == nil {
			t.Errorf("%s was described", name)
		}
	}
}

// described gives the JSON the daemon would be sent, as plain maps.
func described(t *testing.T, s Spec) (config, host map[string]any) {
	t.Helper()
	text, err := s.Describe()
	if err != nil {
		t.Fatal(err)
	}
	var all struct{ Config, HostConfig map[string]any }
	if err := json.NewDecoder(bytes.NewReader(text)).Decode(&all); err != nil {
		t.Fatal(err)
	}
	return all.Config, all.HostConfig
}

func TestWhatNoSpecCanChange(t *testing.T) {
	judged := plain()
	judged.Shim = true
	build := plain()
	build.WritableRoot, build.Tmp = true, verdict.MiB
	for name, s := range map[string]Spec{"plain": plain(), "judged": judged, "build": build} {
		config, host := described(t, s)
		for key, want := range map[string]string{
			"NetworkMode": `"none"`, "IpcMode": `"private"`, "CapDrop": `["ALL"]`, "SecurityOpt": `["no-new-privileges"]`,
			"Privileged": `false`, "PidMode": `""`, "UTSMode": `""`, "UsernsMode": `""`, "Devices": `null`, "Binds": `null`,
			"AutoRemove": `false`, "Init": `false`, "NanoCpus": `1000000000`, "VolumesFrom": `null`, "ShmSize": `0`,
			"Annotations": `{"run.oci.systemd.subgroup":""}`, "DeviceRequests": `null`, "DeviceCgroupRules": `null`, "OomKillDisable": `null`, "PortBindings": `null`,
		} {
			if got, _ := json.Marshal(host[key]); string(got) != want {
				t.Errorf("%s: %s is %s, want %s", name, key, got, want)
			}
		}
		if host["Memory"] != host["MemorySwap"] {
			t.Errorf("%s: memory %v and memory with swap %v differ: it would swap instead of dying", name, host["Memory"], host["MemorySwap"])
		}
		if config["NetworkDisabled"] != true || config["OpenStdin"] != false || config["Tty"] != false {
			t.Errorf("%s: config %v", name, config)
		}
		if got, _ := json.Marshal(config["Healthcheck"]); string(got) != `{"Test":["NONE"]}` {
			t.Errorf("%s: health check %s", name, got)
		}
	}
}

// A flood through the daemon made it write its log at 72 MB/s.
func TestC40NothingAContainerSaysGoesThroughTheDaemon(t *testing.T) {
	judged := plain()
	judged.Shim = true
	build := plain()
	build.WritableRoot, build.Tmp = true, verdict.MiB
	for name, s := range map[string]Spec{"plain": plain(), "judged": judged, "build": build} {
		config, host := described(t, s)
		if log := host["LogConfig"].(map[string]any)["Type"]; log != "none" || config["AttachStdout"] != false || config["AttachStderr"] != false {
			t.Errorf("%s: what it says would go through the daemon: %v", name, log)
		}
	}
}

func TestCapabilitiesAndRootComeWithTheShimAlone(t *testing.T) {
	config, host := described(t, plain())
	if config["User"] != Nobody || host["CapAdd"] != nil || host["CgroupnsMode"] != "private" {
		t.Errorf("plain: user %v, capabilities %v, cgroup namespace %v", config["User"], host["CapAdd"], host["CgroupnsMode"])
	}
	s := plain()
	s.Shim = true
	config, host = described(t, s)
	caps, _ := json.Marshal(host["CapAdd"])
	if config["User"] != "0:0" || string(caps) != `["SETUID","SETGID"]` || host["CgroupnsMode"] != "host" {
		t.Errorf("judged: user %v, capabilities %s, cgroup namespace %v", config["User"], caps, host["CgroupnsMode"])
	}
}

func TestTheImagesOwnEntryPointNeverRuns(t *testing.T) {
	s := plain()
	s.Image.Entrypoint, s.Image.Cmd = []string{"/image-entry"}, []string{"image-arg"}
	s.Argv = []string{"/bin/echo", "a", "b"}
	config, _ := described(t, s)
	entry, _ := json.Marshal(config["Entrypoint"])
	cmd, _ := json.Marshal(config["Cmd"])
	if string(entry) != `["/bin/echo"]` || string(cmd) != `["a","b"]` {
		t.Errorf("entry point %s, command %s", entry, cmd)
	}
	s.Argv = s.Argv[:1]
	config, _ = described(t, s)
	if cmd, _ := json.Marshal(config["Cmd"]); string(cmd) != `[]` {
		t.Errorf("without arguments the command is %s, and null would mean the image's own", cmd)
	}
}

// goFiles calls visit for every Go file of the module, with its path from the module's root.
func goFiles(t *testing.T, visit func(path string, file *ast.File)) {
	t.Helper()
	root, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for ; ; root = filepath.Dir(root) {
		if _, err := os.Stat(filepath.Join(root, "go.mod")); err == nil {
			break
		}
		if root == "/" {
			t.Skip("the module's sources are not here")
		}
	}
	err = filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := e.Name()
		if e.IsDir() && path != root && (strings.HasPrefix(name, ".") || name == "vendor" || name == "testdata" || name == "bin") {
			return filepath.SkipDir
		}
		if e.IsDir() || filepath.Ext(path) != ".go" {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil // the compiler says it better
		}
		rel, _ := filepath.Rel(root, path)
		visit(rel, file)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestNobodyElseImportsTheDockerClient(t *testing.T) {
	here := filepath.Join("services", "internal", "engine")
	seen := false
	goFiles(t, func(path string, file *ast.File) {
		for _, i := range file.Imports {
			name, _ := strconv.Unquote(i.Path.Value)
			docker := strings.HasPrefix(name, "github.com/docker/docker") || strings.HasPrefix(name, "github.com/moby/moby") ||
				strings.HasPrefix(name, "github.com/containerd/containerd")
			switch {
			case docker && filepath.Dir(path) == here:
				seen = true
			case docker:
				t.Errorf("%s imports %s; only the engine does", path, name)
			}
		}
	})
	if !seen {
		t.Error("the search did not even find the engine's own imports")
	}
}

// theDaemon are the ways to a daemon that makes containers, as they would be written in a program.
var theDaemon = regexp.MustCompile(`\b(docker|containerd|podman|crio|buildkitd)\.sock\b|/containers/create`)

// speaksOfTheDaemon are the files that may name one, each with its reason.
var speaksOfTheDaemon = map[string]string{
	"services/internal/config/keys.go":   "the default of the option that names the socket, which is given to the engine",
	"services/internal/engine/client.go": "the engine itself",
	"services/internal/engine/spec.go":   "refuses to mount it",
	"checks/guest/agent/ready.go":        "asks the guest's daemon for its version; it is never on a host that judges",
}

// Whoever holds the socket can make any container. So this looks for the API's call, for every other way to the daemon, and for the
// programs that have one of their own.
func TestContainersAreMadeInOnePlace(t *testing.T) {
	calls, named := 0, map[string]bool{}
	goFiles(t, func(path string, file *ast.File) {
		path = filepath.ToSlash(path)
		if strings.HasSuffix(path, "_test.go") {
			return
		}
		product := strings.HasPrefix(path, "services/") || strings.HasPrefix(path, "shim/") || strings.HasPrefix(path, "langimages/")
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SelectorExpr: // called, or kept in a variable to be called
				if n.Sel.Name == "ContainerCreate" {
					calls++
					if path != "services/internal/engine/container.go" {
						t.Errorf("%s makes a container", path)
					}
				}
			case *ast.BasicLit:
				word, err := strconv.Unquote(n.Value)
				if n.Kind != token.STRING || err != nil {
					break
				}
				if theDaemon.MatchString(word) {
					named[path] = true
					if speaksOfTheDaemon[path] == "" {
						t.Errorf("%s speaks of the daemon: %q", path, word)
					}
				}
				switch filepath.Base(word) {
				case "docker", "podman", "nerdctl", "ctr", "runc", "crun", "buildah", "dockerd", "containerd":
					if dir := filepath.Dir(word); product && (dir == "." || strings.HasSuffix(dir, "bin")) {
						t.Errorf("%s names the program %q", path, word)
					}
				}
			}
			return true
		})
	})
	if calls != 1 {
		t.Errorf("containers are created in %d places, want the one in the engine", calls)
	}
	for path := range speaksOfTheDaemon {
		if !named[path] {
			t.Errorf("%s does not speak of the daemon any more, or was not looked at", path)
		}
	}
}
