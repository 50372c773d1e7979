# The host check asks for everything that judging relies on, and the module makes all of it true, before a reboot and after.
{ cgroupDriver }:
{ host, ... }:
{
  nodes.judge = {
    imports = [ host ];
    services.evalhost.docker = {
      inherit cgroupDriver;
    };
  };

  testScript = ''
    import json

    # What a virtual machine cannot offer, and what makes figures noisier and nothing else.
    NOISE = {"smt", "boost", "governor", "huge-pages", "clock"}

    def contract():
        judge.wait_for_unit("evalhost-images.service")
        report = json.loads(judge.succeed("evalhost check --json"))
        wrong = [
            row
            for row in report["requirements"]
            if row["status"] == "failed" or (row["status"] == "warning" and row["id"] not in NOISE)
        ]
        assert report["fit"] and not wrong, f"the host check found: {wrong}"
        return {row["id"] for row in report["requirements"]}

    judge.start()
    rows = contract()
    for needed in ["cgroup.unified", "docker.seccomp", "swap", "core-pattern", "image.gcc", "image.cpython"]:
        assert needed in rows, f"nothing was said of {needed}"
    assert "image.clang" not in rows, "an image of a language that is not offered was asked for"

    with subtest("Docker runs with the settings of the file, seen through their effects"):
        info = json.loads(judge.succeed("docker info --format '{{json .}}'"))
        assert info["CgroupDriver"] == "${cgroupDriver}", info["CgroupDriver"]
        assert info["CgroupVersion"] == "2", info["CgroupVersion"]
        assert info["DefaultRuntime"] == "crun", info["DefaultRuntime"]
        assert info["LoggingDriver"] == "local", info["LoggingDriver"]
        assert info["LiveRestoreEnabled"] is False
        assert info["DockerRootDir"] == "/var/lib/evalhost/docker", info["DockerRootDir"]
        judge.fail("ip link show docker0")

    with subtest("nothing listens but for the machine itself"):
        listening = judge.succeed("ss -H -l -n -t -u | awk '{print $5}'").split()
        outside = [a for a in listening if not a.startswith(("127.", "[::1]")) and not a.endswith((":68", ":546"))]
        assert not outside, f"open: {outside}"

    with subtest("a program is judged in a container without a network"):
        routes = judge.succeed(
            "docker run --rm --network none evalhost/lang-cpython:local python3 -c "
            + "'print(open(\"/proc/net/route\").read().count(chr(10)))'"
        )
        assert routes.strip() == "1", f"the container has routes: {routes}"

    with subtest("all of it again after a reboot"):
        judge.shutdown()
        judge.start()
        assert contract() == rows
  '';
}
