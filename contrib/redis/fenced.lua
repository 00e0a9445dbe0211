-- A fenced write for Redis 6 or newer: runs commands only if no newer fencing token was used.
--
--     EVAL <this file> 1+n MARK KEY... TOKEN  COUNT WORD...  [COUNT WORD...]...
--     redis-cli --eval fenced.lua 'fence:{wallet:7}' '{wallet:7}' , 1842 3 SET '{wallet:7}' 100
--
-- MARK is the key of the highest token, one for each lock. KEY... are the keys of the commands (in Redis Cluster all in one slot).
-- Each command is its number of words, then the words. The reply is an array of the commands' replies, or an error:
--
--     STALE     a newer token was used: stop the work; nothing was written
--     BADTOKEN  TOKEN is no fencing token, or the value of MARK is none; nothing was written
--     BADCALL   the commands are malformed; nothing was written
--
-- Redis runs a script as one step, so no other client writes between check and commands. If one of the commands fails, those before
-- it remain, as in every script. Give MARK no expiry, and use no `allkeys-` eviction policy.
local function token_of(text)
    if type(text) == 'string' and #text <= 16 and string.find(text, '^[1-9]%d*$') and tonumber(text) < 9007199254740992 then
        return tonumber(text)
    end
    return nil
end

local token = token_of(ARGV[1])
if #KEYS == 0 or not token then
    return redis.error_reply('BADTOKEN ' .. tostring(ARGV[1]) .. ' is no fencing token')
end

local commands = {}
local at = 2
while at <= #ARGV do
    local count = tonumber(ARGV[at])
    if not count or count < 1 or count % 1 ~= 0 or at + count > #ARGV then
        return redis.error_reply('BADCALL argument ' .. at .. ' is not the number of words of a command')
    end
    local words = {}
    for i = at + 1, at + count do
        words[#words + 1] = ARGV[i]
    end
    commands[#commands + 1] = words
    at = at + count + 1
end

local mark = redis.call('GET', KEYS[1])
local highest = 0
if mark then
    highest = token_of(mark)
    if not highest then
        return redis.error_reply('BADTOKEN the value of ' .. KEYS[1] .. ' is no fencing token')
    end
end
if token < highest then
    return redis.error_reply('STALE ' .. KEYS[1] .. ': token ' .. ARGV[1] .. ' is stale, token ' .. mark .. ' was used here')
end
if token > highest then
    redis.call('SET', KEYS[1], ARGV[1])
end

local replies = {}
for i = 1, #commands do
    replies[i] = redis.call(unpack(commands[i]))
end
return replies
