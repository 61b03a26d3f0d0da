/*
 * libgearman as a peer of the benchmark: does what it is told line by line, and says how long it took.
 *
 *   arguments:  host port server      (the process of the server, whose processor time counts too; 0: time that passes)
 *   stdin:      TASK JOBS SIZE WINDOW FUNCTION      (TASK: submit, batch, work, round-trip, foreground)
 *   stdout:     "ready", then "done NANOSECONDS" for each line, or what went wrong
 */
#include <libgearman/gearman.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char *host;
static in_port_t port;
static char *workload;
static size_t size;

/* Everything that goes wrong is the end. */
static void check(bool is_good, const char *what, const char *why)
{
  if (!is_good)
  {
    printf("%s: %s\n", what, why ? why : "?");
    fflush(stdout);
    exit(1);
  }
}

static pid_t server;
static pid_t child;

static long long read_clock(clockid_t clock)
{
  struct timespec time;
  check(clock_gettime(clock, &time) == 0, "clock_gettime", "failed");
  return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static long long processor_time(pid_t process)
{
  clockid_t clock;
  if (process == 0)
    return 0;
  check(clock_getcpuclockid(process, &clock) == 0, "clock_getcpuclockid", "failed");
  return read_clock(clock);
}

static long long now(void)
{
  if (server == 0)
    return read_clock(CLOCK_MONOTONIC);
  return processor_time(getpid()) + processor_time(server) + processor_time(child);
}

static void submit(gearman_client_st *client, const char *function, long jobs)
{
  gearman_job_handle_t handle;
  for (long job = 0; job < jobs; job++)
  {
    gearman_return_t ret =
      gearman_client_do_background(client, function, NULL, workload, size, handle);
    check(gearman_success(ret), "do_background", gearman_client_error(client));
  }
}

static void round_trips(gearman_client_st *client, const char *function, long jobs)
{
  for (long job = 0; job < jobs; job++)
  {
    size_t result_size;
    gearman_return_t ret;
    free(gearman_client_do(client, function, NULL, workload, size, &result_size, &ret));
    check(gearman_success(ret), "do", gearman_client_error(client));
  }
}

/* Its batch: tasks are added, then run together. */
static void batches(gearman_client_st *client, const char *function, long jobs, long window,
                    bool is_background)
{
  while (jobs > 0)
  {
    long count = jobs < window ? jobs : window;
    for (long job = 0; job < count; job++)
    {
      gearman_return_t ret;
      if (is_background)
        gearman_client_add_task_background(client, NULL, NULL, function, NULL, workload, size,
                                           &ret);
      else
        gearman_client_add_task(client, NULL, NULL, function, NULL, workload, size, &ret);
      check(gearman_success(ret), "add_task", gearman_client_error(client));
    }
    check(gearman_success(gearman_client_run_tasks(client)), "run_tasks",
          gearman_client_error(client));
    gearman_client_task_free_all(client);
    jobs -= count;
  }
}

static void *answer(gearman_job_st *job, void *context, size_t *result_size, gearman_return_t *ret)
{
  (void)job;
  (void)context;
  void *result = malloc(size);
  memcpy(result, workload, size);
  *result_size = size;
  *ret = GEARMAN_SUCCESS;
  return result;
}

static gearman_worker_st *worker_for(const char *function)
{
  gearman_worker_st *worker = gearman_worker_create(NULL);
  gearman_worker_set_timeout(worker, 10000);
  check(gearman_success(gearman_worker_add_server(worker, host, port)), "worker",
        gearman_worker_error(worker));
  check(gearman_success(gearman_worker_add_function(worker, function, 0, answer, NULL)),
        "add_function", gearman_worker_error(worker));
  return worker;
}

static void work(gearman_worker_st *worker, long jobs)
{
  for (long job = 0; job < jobs; job++)
    check(gearman_success(gearman_worker_work(worker)), "work", gearman_worker_error(worker));
}

/* Foreground jobs, with a worker of the same library in a process of its own. */
static long long foreground(gearman_client_st *client, const char *function, long jobs, long window)
{
  child = fork();
  check(child >= 0, "fork", "failed");
  if (child == 0)
  {
    gearman_worker_st *worker = worker_for(function);
    work(worker, jobs + 1);
    gearman_worker_free(worker);
    _exit(0);
  }
  /* The first one tells that the worker is there. */
  round_trips(client, function, 1);
  long long start = now();
  batches(client, function, jobs, window, false);
  long long time = now() - start;
  int status;
  waitpid(child, &status, 0);
  child = 0;
  check(status == 0, "the worker", "failed");
  return time;
}

int main(int count, char **arguments)
{
  char line[512], task[16], function[256];
  long jobs, window;
  if (count != 4)
    return 2;
  host = arguments[1];
  port = (in_port_t)atoi(arguments[2]);
  server = (pid_t)atoi(arguments[3]);
  gearman_client_st *client = gearman_client_create(NULL);
  gearman_client_set_timeout(client, 10000);
  check(gearman_success(gearman_client_add_server(client, host, port)), "client",
        gearman_client_error(client));
  printf("ready\n");
  fflush(stdout);
  while (fgets(line, sizeof line, stdin))
  {
    if (sscanf(line, "%15s %ld %zu %ld %255s", task, &jobs, &size, &window, function) != 5)
      return 2;
    workload = realloc(workload, size);
    memset(workload, 'x', size);
    long long start = now(), time = -1;
    if (strcmp(task, "submit") == 0)
      submit(client, function, jobs);
    else if (strcmp(task, "batch") == 0)
      batches(client, function, jobs, window, true);
    else if (strcmp(task, "round-trip") == 0)
      round_trips(client, function, jobs);
    else if (strcmp(task, "foreground") == 0)
      time = foreground(client, function, jobs, window);
    else if (strcmp(task, "work") == 0)
    {
      gearman_worker_st *worker = worker_for(function);
      start = now();
      work(worker, jobs);
      time = now() - start;
      gearman_worker_free(worker);
    }
    else
      return 2;
    if (time < 0)
      time = now() - start;
    printf("done %lld\n", time);
    fflush(stdout);
  }
  return 0;
}
