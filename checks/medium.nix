# For machines that are booted from a medium of ours and are no nodes of the test driver: a Server on the machine that runs
# the test, which QEMU's own network shows them as 10.0.2.2, and a submission that has to come back judged.
{
  firmware,
  memory,
  lib,
  pkgs,
  programs,
}:
{
  url = "http://10.0.2.2:8080/api/v1";

  # The command that boots a machine with these drives and this much memory, in MiB.
  start =
    drives:
    lib.concatStringsSep " " (
      [
        "${lib.getExe' pkgs.qemu_test "qemu-kvm"}"
        "-cpu max -smp 2 -m ${toString memory} -netdev user,id=net -device virtio-net-pci,netdev=net"
      ]
      ++ lib.optionals (firmware == "uefi") [
        "-drive if=pflash,format=raw,unit=0,readonly=on,file=${pkgs.OVMF.firmware}"
        "-drive if=pflash,format=raw,unit=1,readonly=on,file=${pkgs.OVMF.variables}"
      ]
      ++ drives
    );

  script = ''
    import json
    import subprocess
    import urllib.request
    import zipfile
    from pathlib import Path
    from typing import Any

    def boots(name, command):
        machine = create_machine(command, name=name)
        machine.start()
        return machine

    def control(method: str, path: str, body: bytes | None = None) -> Any:
        request = urllib.request.Request(
            f"http://127.0.0.1:8080/_test{path}", data=body, method=method, headers={"X-Evalhost-Control": "1"}
        )
        with urllib.request.urlopen(request, timeout=300) as answer:
            return json.loads(answer.read() or "null")

    def serve():
        """Starts a Server that every Runner may join."""
        server = subprocess.Popen(["${lib.getExe programs.refserver}", "-listen", "127.0.0.1:8080", "-approve-all"])
        def listens(_):
            try:
                return control("GET", "/state") is not None
            except OSError:
                assert server.poll() is None, "the reference server does not start"
                return False
        retry(listens)
        return server

    def judges():
        """Waits for a Runner, which joins once its machine is proved, and has it judge."""
        retry(lambda _: bool(control("GET", "/state")["runners"]))
        example = Path("${../examples}/sum")
        # Whatever is in the store is older than an archive can say.
        with zipfile.ZipFile("/tmp/sum.zip", "w", strict_timestamps=False) as archive:
            for file in sorted(example.rglob("*")):
                if file.is_file():
                    archive.write(file, file.relative_to(example))
        package = Path("/tmp/sum.zip").read_bytes()
        problem = control("POST", "/packages?name=sum&type=standard-io@1", package)["id"]
        solutions = "${../examples}/sum/solutions"
        for name, verdict in [("accepted/sum.c", "Accepted"), ("wrong_answer/narrow.c", "Wrong answer")]:
            source = Path(solutions, name)
            job = control(
                "POST", f"/submissions?problem={problem}&fileName={source.name}&language=c11-gcc", source.read_bytes()
            )
            job = control("GET", f"/jobs/{job['id']}?waitSeconds=240")
            assert job.get("result", {}).get("verdict") == verdict, f"{name}: {job}"
  '';
}
