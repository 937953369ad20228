// What a program can say by the types of the client, and what it can not.
import { HubError, type Problem, type Schemas, connect, once, take } from "agent-memoryhub-client";

const hub = connect("http://127.0.0.1:8000", "");
const path = { thread: "t" };
const said = { from: "user", to: "agent", type: "chat.user", content: null };

// @ts-expect-error A message has a receiver.
export const nobody: Schemas["SlotIn"] = { from: "user", type: "chat.user", content: 1 };
// @ts-expect-error There is no such policy.
export const config: Schemas["ConfigIn"] = { policy: "fifo" };
// @ts-expect-error There is no such address.
export const nowhere = () => hub.GET("/api/v1/thread");
// @ts-expect-error The thread is not named.
export const unnamed = () => hub.GET("/api/v1/threads/{thread}", {});

export async function index(): Promise<number> {
  const params = { path, header: once() };
  const sent = hub.POST("/api/v1/threads/{thread}/slots", { params, body: said });
  return (await take(sent)).index;
}

export async function code(): Promise<string | undefined> {
  const { error } = await hub.GET("/api/v1/threads/{thread}", { params: { path } });
  const problem: Problem | undefined = error;
  return problem?.code;
}

export function retry(error: HubError): number | undefined {
  return error.code === "rate" ? error.retryAfter : undefined;
}
