// Holds the server to the official client of OpenAI's API for Node.js: `make clients` starts a server and runs this.
import assert from 'node:assert/strict'
import test from 'node:test'
import OpenAI from 'openai'

const client = new OpenAI({ maxRetries: 0 }) // of OPENAI_BASE_URL and OPENAI_API_KEY
const add8 = 'Define compute(x), which takes an integer x and returns x plus 8.\nAnswer with Python code in a ```python block.'
const ask = (more) => ({ model: 'tiny', seed: 7, max_completion_tokens: 40, messages: [{ role: 'user', content: add8 }], ...more })

test('models', async () => {
  assert.equal((await client.models.list()).data[0].id, 'tiny')
  assert.equal((await client.models.retrieve('tiny')).id, 'tiny')
})

test('a stream joins to the whole', async () => {
  const whole = await client.chat.completions.create(ask({ n: 2 }))
  const texts = ['', '']
  let usage
  for await (const chunk of await client.chat.completions.create(ask({ n: 2, stream: true, stream_options: { include_usage: true } }))) {
    for (const choice of chunk.choices) texts[choice.index] += choice.delta.content ?? ''
    usage = chunk.usage ?? usage
  }
  assert.deepEqual(texts, whole.choices.map((c) => c.message.content))
  assert.deepEqual(usage.completion_tokens, whole.usage.completion_tokens)
})

test('the helper for streams', async () => {
  const stream = client.chat.completions.stream(ask({}))
  const final = await stream.finalChatCompletion()
  const whole = await client.chat.completions.create(ask({}))
  assert.equal(final.choices[0].message.content, whole.choices[0].message.content)
})

const tools = [{ type: 'function', function: { name: 'weather', strict: true, parameters: {
  type: 'object', additionalProperties: false, required: ['unit'], properties: { unit: { type: 'string', enum: ['celsius', 'kelvin'] } } } } }]

test('tools', async () => {
  const more = { tools, tool_choice: 'required', parallel_tool_calls: false, max_completion_tokens: 300 }
  const whole = await client.chat.completions.create(ask(more))
  const [call] = whole.choices[0].message.tool_calls
  assert.equal(whole.choices[0].finish_reason, 'tool_calls')
  assert.ok(['celsius', 'kelvin'].includes(JSON.parse(call.function.arguments).unit))
  const streamed = await client.chat.completions.stream(ask(more)).finalChatCompletion()
  assert.equal(streamed.choices[0].message.tool_calls[0].id, call.id)
  assert.equal(streamed.choices[0].message.tool_calls[0].function.arguments, call.function.arguments)
})

test('log-probabilities', async () => {
  const whole = await client.chat.completions.create(ask({ logprobs: true, top_logprobs: 3 }))
  const { content } = whole.choices[0].logprobs
  for (const token of content) {
    assert.ok(token.logprob <= 0)
    assert.equal(token.top_logprobs.length, 3)
  }
  assert.equal(Buffer.from(content.flatMap((t) => t.bytes)).toString(), whole.choices[0].message.content)
})

test('a schema', async () => {
  const response_format = { type: 'json_schema', json_schema: { name: 'n', strict: true, schema: {
    type: 'object', additionalProperties: false, required: ['ok', 'n'],
    properties: { ok: { type: 'boolean' }, n: { type: 'integer', minimum: 1, maximum: 9 } } } } }
  const parsed = await client.chat.completions.parse(ask({ response_format, max_completion_tokens: 300 }))
  const value = parsed.choices[0].message.parsed
  assert.equal(typeof value.ok, 'boolean')
  assert.ok(value.n >= 1 && value.n <= 9)
})

test('somebody leaves', async () => {
  const stream = await client.chat.completions.create(ask({ stream: true, max_completion_tokens: 1500, ignore_eos: true }))
  for await (const _ of stream) break // ends the request
  assert.ok(stream.controller.signal.aborted)
  assert.equal((await client.chat.completions.create(ask({}))).object, 'chat.completion')
})

test('errors have their classes', async () => {
  await assert.rejects(client.chat.completions.create(ask({ temperature: -1 })), OpenAI.BadRequestError)
  await assert.rejects(client.chat.completions.create(ask({ model: 'other' })), OpenAI.NotFoundError)
  await assert.rejects(new OpenAI({ apiKey: 'sk-wrong', maxRetries: 0 }).models.list(), OpenAI.AuthenticationError)
  await assert.rejects(client.embeddings.create({ model: 'tiny', input: 'a' }), (e) => e instanceof OpenAI.NotFoundError && /not embeddings/.test(e.message))
  await assert.rejects(client.chat.completions.create(ask({ messages: [{ role: 'user', content: 'a'.repeat(5 << 20) }] })), (e) => e.status === 413)
  await assert.rejects(client.chat.completions.create(ask({ max_completion_tokens: 5000 })), (e) => e.code === 'context_length_exceeded' && e.type === 'invalid_request_error')
})
