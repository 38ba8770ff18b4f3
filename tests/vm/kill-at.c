/*
 * kill-at CALL N PROGRAM ARGUMENT…: runs a program and kills it before its Nth renameat, renameat2 or pwrite64. Exit status: 137
 * if killed, else the program's.
 *
 * strace could do this, but stops at every call, which takes most of a minute under emulation. A seccomp filter stops only
 * at this call.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static unsigned int number(const char *call)
{
	if (!strcmp(call, "renameat"))
		return SYS_renameat;
	return strcmp(call, "renameat2") ? SYS_pwrite64 : SYS_renameat2;
}

static void become(unsigned int call, char **command)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { sizeof(filter) / sizeof(filter[0]), filter };

	ptrace(PTRACE_TRACEME, 0, 0, 0);
	raise(SIGSTOP);
	if (!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) && !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		execvp(command[0], command);
	_exit(126);
}

int main(int count, char **words)
{
	long options = PTRACE_O_EXITKILL | PTRACE_O_TRACESECCOMP | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK |
		       PTRACE_O_TRACECLONE | PTRACE_O_TRACEEXEC;
	int state, left, signal;
	pid_t first, pid;

	if (count < 4)
		return 125;
	left = atoi(words[2]);
	first = fork();
	if (!first)
		become(number(words[1]), words + 3);
	if (first < 0 || waitpid(first, &state, 0) != first || ptrace(PTRACE_SETOPTIONS, first, 0, options) ||
	    ptrace(PTRACE_CONT, first, 0, 0))
		return 125;
	/* Traces threads and children too: without a tracer the filter makes the call fail with ENOSYS. */
	while ((pid = waitpid(-1, &state, __WALL)) > 0 || errno == EINTR) {
		if (pid == first && WIFEXITED(state))
			return WEXITSTATUS(state);
		if (pid == first && WIFSIGNALED(state))
			return 128 + WTERMSIG(state);
		if (pid <= 0 || !WIFSTOPPED(state))
			continue;
		if (state >> 8 == (SIGTRAP | PTRACE_EVENT_SECCOMP << 8) && !--left) {
			kill(first, SIGKILL);
			continue;
		}
		signal = WSTOPSIG(state);
		ptrace(PTRACE_CONT, pid, 0, signal == SIGTRAP || signal == SIGSTOP ? 0 : signal);
	}
	return 125;
}
