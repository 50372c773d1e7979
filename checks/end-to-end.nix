# A Server on one machine, a judging host on another: the host introduces itself, is approved, fetches a package, judges
# what is submitted, and reports. Then the host is destroyed, and what comes back in its place judges the same.
{ lanes }:
{
  host,
  lib,
  programs,
  ...
}:
{
  nodes = {
    judge = {
      imports = [ host ];
      services.evalhost = {
        inherit lanes;
        processors = lib.mkIf (lanes > 1) "2-${toString (lanes + 1)}";
      };
    };
    server =
      { lib, pkgs, ... }:
      {
        networking.firewall.allowedTCPPorts = [ 8080 ];
        networking.interfaces.eth1.ipv4.addresses = lib.mkForce [
          {
            address = "192.168.1.100";
            prefixLength = 24;
          }
        ];
        environment.systemPackages = [
          pkgs.curl
          pkgs.zip
        ];
        # The reference server listens on loopback and nowhere else. What the host sees of it is one port in front.
        systemd.services.refserver = {
          wantedBy = [ "multi-user.target" ];
          serviceConfig.ExecStart = "${lib.getExe programs.refserver} -listen 127.0.0.1:8081";
        };
        systemd.sockets.front = {
          wantedBy = [ "sockets.target" ];
          listenStreams = [ "0.0.0.0:8080" ];
        };
        systemd.services.front.serviceConfig.ExecStart = "${pkgs.systemd}/lib/systemd/systemd-socket-proxyd 127.0.0.1:8081";
      };
  };

  testScript = ''
    import json

    def control(method, path, file=None):
        body = f"--data-binary @{file}" if file else ""
        answer = server.succeed(
            f"curl --silent --show-error --fail -X {method} -H 'X-Evalhost-Control: 1' {body} 'http://127.0.0.1:8081/_test{path}'"
        )
        return json.loads(answer) if answer.strip() else None

    def approve():
        """Waits until the host has introduced itself, and approves it."""
        def waiting(_):
            return any(r["state"] == "pendingApproval" for r in control("GET", "/state")["runners"] or [])
        retry(waiting)
        for runner in control("GET", "/state")["runners"]:
            if runner["state"] == "pendingApproval":
                control("POST", f"/runners/{runner['id']}/approve")

    def judged(problem, file, language):
        name = file.rsplit("/", 1)[1]
        job = control("POST", f"/submissions?problem={problem}&fileName={name}&language={language}", file)
        return control("GET", f"/jobs/{job['id']}?waitSeconds=240")

    def expect(problem):
        solutions = "${../examples}/sum/solutions"
        for file, language, verdict in [
            (f"{solutions}/accepted/sum.c", "c11-gcc", "Accepted"),
            (f"{solutions}/accepted/sum.py", "python3", "Accepted"),
            (f"{solutions}/wrong_answer/narrow.c", "c11-gcc", "Wrong answer"),
            (f"{solutions}/time_limit_exceeded/endless.c", "c11-gcc", "Time limit exceeded"),
        ]:
            job = judged(problem, file, language)
            assert job.get("result", {}).get("verdict") == verdict, f"{file}: {job}"

    server.start()
    server.wait_for_unit("refserver.service")
    server.wait_for_open_port(8080)
    judge.start()
    judge.wait_for_unit("evalhost-runner.service")
    status = judge.succeed("systemctl show -P StatusText evalhost-runner.service")
    assert status.strip(), "the daemon does not say what it is doing"

    server.succeed("cp -r --no-preserve=mode ${../examples}/sum /tmp/sum && cd /tmp/sum && zip -q -r /tmp/sum.zip .")
    problem = control("POST", "/packages?name=sum&type=standard-io@1", "/tmp/sum.zip")["id"]

    with subtest("it is approved, and judges"):
        approve()
        expect(problem)

    with subtest("destroyed in the middle and started again it registers anew, and judges the same"):
        judge.crash()
        judge.start()
        judge.wait_for_unit("evalhost-runner.service")
        approve()
        expect(problem)

    with subtest("nothing is left behind by a Runner that was told to stop"):
        judge.succeed("systemctl stop evalhost-runner.service")
        left = judge.succeed("docker ps --all --quiet").strip()
        assert not left, f"containers: {left}"
        judge.succeed("test -z \"$(ls -A /var/lib/evalhost/scratch)\"")
  '';
}
