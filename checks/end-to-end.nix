# A Server on one machine, a judging host on another: the host introduces itself, and is approved, by itself.
{ host, programs, ... }:
{
  nodes = {
    judge.imports = [ host ];
    server =
      { lib, ... }:
      {
        networking.firewall.allowedTCPPorts = [ 8080 ];
        networking.interfaces.eth1.ipv4.addresses = lib.mkForce [
          {
            address = "192.168.1.100";
            prefixLength = 24;
          }
        ];
        systemd.services.refserver = {
          wantedBy = [ "multi-user.target" ];
          serviceConfig.ExecStart = lib.getExe programs.refserver;
        };
      };
  };

  testScript = ''
    start_all()
    server.wait_for_unit("refserver.service")
    judge.wait_for_unit("evalhost-runner.service")
    status = judge.succeed("systemctl show -P StatusText evalhost-runner.service")
    assert status.strip(), "the daemon does not say what it is doing"
  '';
}
