# Targets a newcomer needs: demo, test. The others serve whoever works on the tree.
# The programs are built and then become the recipe's own process: `go run` would pass no SIGTERM on, and a guest would stay up.
DRIVE = go build -o bin/drive ./checks/suites/drive && exec bin/drive
GUEST = go build -o bin/guest ./checks/guest/cmd/guest && exec bin/guest
# What `evalhost version` and the Runner call themselves: flake.nix's number and the commit, as a build with Nix does.
VERSION = $(shell sed -n 's/^ *version = "\([^"]*+\)".*/\1/p' flake.nix)$(shell git describe --always --dirty --exclude '*' 2>/dev/null || echo unknown)
RELEASE = CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.version=$(VERSION)"

.PHONY: help demo demo-server test quick soak mutants guest guest-down images bench fmt lint build

help:
	@echo "make demo         judge every labelled solution of the examples sum and squares; on this machine if it is fit, else in the guest"
	@echo "make demo-server  a reference server and a Runner in the guest: three submissions and their results"
	@echo "make test         everything: lint, unit tests, every suite in the guest, on hosts that judge and on broken ones; about an hour"
	@echo "make quick        lint and unit tests only"
	@echo "make build        the programs, into bin/"
	@echo "make images       the language images and their manifest for a host that is not NixOS, into images/"
	@echo "make guest        bring the guest up and keep it up; 'bin/guest exec -- sh -c COMMAND' runs something in it"
	@echo "make guest-down   end it"
	@echo "make soak         every fuzz target for a minute, every suite on every kind of host that it is for, 500 runs, mutants"
	@echo "make mutants      every control of the sandbox switched off in turn, and the test that notices"
	@echo "make bench        what a container and a judged test cost in the guest"
	@echo "make lint         formatting, go vet, staticcheck"
	@echo "make fmt          format the sources"

demo:
	@$(DRIVE) demo

demo-server:
	@$(DRIVE) demo-server

test:
	@$(DRIVE) test

quick:
	@$(DRIVE) quick

bench:
	@$(DRIVE) bench

soak:
	@$(DRIVE) soak

mutants:
	@$(DRIVE) mutants

lint:
	@$(DRIVE) lint

build:
	$(RELEASE) -o bin/evalhost ./services/evalhost
	$(RELEASE) -o bin/evalhost-runner ./services/runner
	$(RELEASE) -o bin/refserver ./services/refserver
	$(RELEASE) -o bin/aj-shim ./shim

images:
	@$(GUEST) images

guest:
	@$(GUEST) up

guest-down:
	@$(GUEST) down

fmt:
	go tool -modfile=checks/lint/go.mod gofumpt -w $$(git ls-files '*.go')
