// A conversation that is kept by the hub, in TypeScript. Build the client with
// `make typescript` and install the file that it names, then:
//
//   npx tsc --strict --target ES2022 --module NodeNext typescript_client.ts
//   MEMORYHUB_KEY=mh_live_… node typescript_client.js
import { connect, HubError, once, take, type Schemas } from "agent-memoryhub-client";

const url = process.env.MEMORYHUB_URL ?? "http://127.0.0.1:8000";
const hub = connect(url, process.env.MEMORYHUB_KEY ?? "");
const path = { thread: "flight:nl-482" };

function slot(role: "user" | "assistant", text: string): Schemas["SlotIn"] {
  const content = { role, content: text };
  return { from: role, to: "agent", type: `chat.${role}`, content };
}

// The thread's person, by your own id.
const body = { user_id: "customer-7" };
await take(hub.PUT("/api/v1/threads/{thread}", { params: { path }, body }));

const question = slot("user", "Is NL 482 on time?");
const turn = await take(
  hub.POST("/api/v1/threads/{thread}/turns", {
    params: { path, header: once() },
    body: { items: [question] },
  }),
);
// Send `turn.request` to your model.
console.log("Turn", turn.turn, turn.request.messages?.length ? "has a request." : "is empty.");

// The model's answer. Sent twice with one key, it is kept once.
const header = once();
for (const _ of ["first", "again"]) {
  const { index } = await take(
    hub.POST("/api/v1/threads/{thread}/slots", {
      params: { path, header },
      body: slot("assistant", "Yes, it leaves at 9:40."),
    }),
  );
  console.log("The answer has index", index);
}

try {
  const missing = { thread: path.thread, index: 7 };
  await take(
    hub.GET("/api/v1/threads/{thread}/slots/{index}", { params: { path: missing } }),
  );
} catch (error) {
  if (!(error instanceof HubError)) throw error;
  console.log(error.status, error.code);
}
