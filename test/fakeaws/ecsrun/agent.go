package ecsrun

import (
	"bytes"
	"context"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"

	tasksapi "github.com/containerd/containerd/api/services/tasks/v1"
	"google.golang.org/grpc/status"
)

// The agent of ECS Exec runs as root in each container of a task that has it: in its
// namespaces and its cgroup, started from outside (amazon-ecs-agent,
// agent/engine/execcmd/manager_start_linux.go), from a directory that is mounted in the
// container. Here a program stands in for it that does nothing; what memory the real one
// takes is subtracted from the container's limit (container.go).
const (
	// agentDir is where it is in containers on Fargate: undocumented, seen in lists of their
	// processes.
	agentDir  = "/managed-agents/execute-command"
	agentName = "amazon-ssm-agent"
	// agentExec is its name for containerd.
	agentExec = "execute-command"
	// agentPatience is how long the end of a container in which it could not be started may
	// take to show.
	agentPatience = 10 * time.Second
)

// writeAgent makes the program in a directory that containerd sees.
func (r *Runner) writeAgent() error {
	program, err := idle(runtime.GOARCH)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(r.agentDir(), 0o755); err != nil {
		return fmt.Errorf("make directory of the agent: %w", err)
	}
	if err := os.WriteFile(filepath.Join(r.agentDir(), agentName), program, 0o755); err != nil {
		return fmt.Errorf("write the agent: %w", err)
	}
	return nil
}

func (r *Runner) agentDir() string { return filepath.Join(r.dir, "ecs-agent") }

// idle is a program that waits for ever: images of containers may have none that does, nor
// the libraries of one. A signal that it does not handle ends it.
func idle(arch string) ([]byte, error) {
	const base, page = 0x400000, 0x1000
	var machine elf.Machine
	var code []byte
	switch arch {
	case "amd64":
		machine, code = elf.EM_X86_64, []byte{
			0xb8, 34, 0, 0, 0, // mov eax, pause
			0x0f, 0x05, // syscall
			0xeb, 0xf7, // jmp to the begin
		}
	case "arm64": // which has no pause: ppoll of nothing, for ever
		machine = elf.EM_AARCH64
		for _, instruction := range []uint32{
			0xd2800000, 0xd2800001, 0xd2800002, 0xd2800003, // mov x0 to x3, 0
			0xd2800928, // mov x8, ppoll
			0xd4000001, // svc 0
			0x17fffffa, // b to the begin
		} {
			code = binary.LittleEndian.AppendUint32(code, instruction)
		}
	default:
		return nil, fmt.Errorf("there is no agent for %s", arch)
	}
	head := elf.Header64{
		Ident: [elf.EI_NIDENT]byte{
			0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT),
		},
		Type: uint16(elf.ET_EXEC), Machine: uint16(machine), Version: uint32(elf.EV_CURRENT), Phnum: 1,
	}
	program := elf.Prog64{
		Type: uint32(elf.PT_LOAD), Flags: uint32(elf.PF_R | elf.PF_X), Vaddr: base, Paddr: base, Align: page,
	}
	heads := uint64(binary.Size(head) + binary.Size(program))
	head.Ehsize, head.Phentsize = uint16(binary.Size(head)), uint16(binary.Size(program))
	head.Phoff, head.Entry = uint64(binary.Size(head)), base+heads
	program.Filesz = heads + uint64(len(code))
	program.Memsz = program.Filesz
	var out bytes.Buffer
	for _, part := range []any{head, program, code} {
		if err := binary.Write(&out, binary.LittleEndian, part); err != nil { // into memory, of fixed sizes
			return nil, fmt.Errorf("write the agent: %w", err)
		}
	}
	return out.Bytes(), nil
}

// agentMount is what the container's specification has for it.
func (r *Runner) agentMount() any {
	return object{
		"destination": agentDir, "type": "bind", "source": r.agentDir(), "options": []string{"rbind", "ro"},
	}
}

// startAgent starts it. It ends with the container, which may have ended already.
func (c *container) startAgent(ctx context.Context) error {
	process, err := c.rootProcess(ctx, []string{agentDir + "/" + agentName}, false)
	if err != nil {
		return err
	}
	_, err = c.t.r.tasks.Exec(
		inNamespace(ctx), &tasksapi.ExecProcessRequest{ContainerID: c.id, ExecID: agentExec, Spec: process},
	)
	if err == nil {
		_, err = c.t.r.tasks.Start(inNamespace(ctx), &tasksapi.StartRequest{ContainerID: c.id, ExecID: agentExec})
	}
	if err == nil {
		return nil
	}
	within, cancel := context.WithTimeout(ctx, agentPatience)
	defer cancel()
	// What containerd says of its processes meanwhile depends on how far their end is.
	if running := retry(within, func() error { return c.ended(within) }); running != nil {
		return errors.Join(fmt.Errorf("start the agent of ECS Exec: %s", status.Convert(err).Message()), running)
	}
	return nil
}

// ended returns an error unless CRI says that the container has ended, or knows it no more.
func (c *container) ended(ctx context.Context) error {
	_, err := c.exit(ctx)
	if isNotFound(err) {
		return nil
	}
	return err
}
